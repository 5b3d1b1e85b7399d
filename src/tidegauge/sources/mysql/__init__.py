"""All that is particular to reading MySQL and MariaDB."""
