"""All that is particular to MySQL and MariaDB as a warehouse."""
