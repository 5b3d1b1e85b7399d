"""Schemas shaped like those that people try first: a pattern over all, and one line of hints followed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.test_without_cursor import Shop
from tests.support.project import here, mysql_database, postgres_database
from tests.support.servers import MariaDB, Postgres

SAKILA = """
CREATE TABLE actor (
  actor_id SMALLINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, first_name VARCHAR(45) NOT NULL,
  last_name VARCHAR(45) NOT NULL, full_name VARCHAR(91) AS (CONCAT(first_name, ' ', last_name)) VIRTUAL,
  last_update TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP);
CREATE TABLE film (
  film_id SMALLINT UNSIGNED PRIMARY KEY, title VARCHAR(255) NOT NULL, description TEXT, release_year YEAR,
  rental_rate DECIMAL(4,2) NOT NULL DEFAULT 4.99, third DECIMAL(10,4) AS (rental_rate / 3) STORED,
  rating ENUM('G','PG','PG-13','R','NC-17') DEFAULT 'G',
  special_features SET('Trailers','Commentaries','Deleted Scenes'), last_update TIMESTAMP NOT NULL);
CREATE TABLE film_actor (
  actor_id SMALLINT UNSIGNED, film_id SMALLINT UNSIGNED, last_update TIMESTAMP NOT NULL,
  PRIMARY KEY (actor_id, film_id));
CREATE TABLE film_text (
  film_id SMALLINT PRIMARY KEY, title VARCHAR(255) NOT NULL, description TEXT,
  FULLTEXT KEY words (title, description));
CREATE TABLE address (
  address_id INT PRIMARY KEY, address VARCHAR(50), location GEOMETRY NOT NULL, last_update TIMESTAMP NOT NULL,
  SPATIAL KEY place (location));
CREATE TABLE staff (
  staff_id TINYINT UNSIGNED PRIMARY KEY, picture BLOB, active BOOLEAN NOT NULL,
  last_update TIMESTAMP NOT NULL);
CREATE TABLE rental (
  rental_id INT PRIMARY KEY, rental_date DATETIME NOT NULL, last_update TIMESTAMP NOT NULL);
CREATE TABLE visits (who VARCHAR(20), last_update TIMESTAMP NOT NULL);
CREATE VIEW actor_info AS SELECT actor_id, full_name FROM actor;
INSERT INTO actor (actor_id, first_name, last_name, last_update)
  VALUES (1, 'PENELOPE', 'GUINESS', '2006-02-15');
INSERT INTO film (film_id, title, release_year, special_features, last_update) VALUES
  (1, 'ACADEMY DINOSAUR', 2006, 'Trailers,Deleted Scenes', '2006-02-15'), (2, 'ACE', NULL, '', '2006-02-15');
INSERT INTO film_actor VALUES (1, 1, '2006-02-15'), (1, 2, '2006-02-15');
INSERT INTO film_text VALUES (1, 'ACADEMY DINOSAUR', 'A Epic Drama'), (2, 'ACE', NULL);
INSERT INTO address VALUES
  (1, '47 MySakila Drive', ST_GeomFromText('POINT(153.1408 -27.6333)', 4326), '2014-09-25'),
  (2, NULL, POINT(0, 0), '2014-09-25');
INSERT INTO staff VALUES (1, X'89504E47', TRUE, '2006-02-15'), (2, NULL, FALSE, '2006-02-15');
INSERT INTO rental
  SELECT seq, '2005-05-24 22:53:30' + INTERVAL seq MINUTE, '2006-02-15' FROM seq_1_to_16000;
INSERT INTO visits VALUES ('a', '2006-02-15'), ('a', '2006-02-15'), (NULL, '2006-02-15')
"""
TABLES = ("actor", "address", "film", "film_actor", "film_text", "rental", "staff", "visits")
EMPLOYEES = """
CREATE TABLE employees (
  emp_no INT PRIMARY KEY, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL,
  gender ENUM('M','F') NOT NULL, hire_date DATE NOT NULL);
CREATE TABLE departments (dept_no CHAR(4) PRIMARY KEY, dept_name VARCHAR(40) NOT NULL UNIQUE);
CREATE TABLE dept_emp (
  emp_no INT, dept_no CHAR(4), from_date DATE NOT NULL, to_date DATE NOT NULL, PRIMARY KEY (emp_no, dept_no));
CREATE TABLE salaries (
  emp_no INT, salary INT NOT NULL, from_date DATE, to_date DATE NOT NULL, PRIMARY KEY (emp_no, from_date));
CREATE VIEW dept_emp_latest_date AS SELECT emp_no, MAX(from_date) AS from_date FROM dept_emp GROUP BY emp_no;
INSERT INTO employees
  SELECT 10000 + seq, '1953-09-02', 'Georgi', IF(seq % 2, 'M', 'F'), '1986-06-26' FROM seq_1_to_500;
INSERT INTO departments VALUES ('d001', 'Marketing'), ('d002', 'Finance');
INSERT INTO dept_emp SELECT emp_no, 'd001', hire_date, '9999-01-01' FROM employees;
INSERT INTO salaries SELECT emp_no, 60000, hire_date, '9999-01-01' FROM employees
"""


def follow(shop: Shop, more: str, *, code: int) -> str:
    """The first line that a run which fails says to write."""
    ran = here("run", "--project", shop.file)
    assert ran.code == code, ran.said
    found = re.search(r"`(without_cursor: snapshot)`", ran.said)
    assert found, ran.said
    return f"{more}, {found[1]}"


def test_a_schema_like_sakila(mariadb: MariaDB, tmp_path: Path) -> None:
    shop = Shop(tmp_path, mysql_database(mariadb), mysql_database(mariadb))
    shop.app.execute(*SAKILA.split(";\n"))
    more = ", cursor: last_update, batch_rows: 3000, deletes: hard"
    shop.write(more=more)
    more = follow(shop, more, code=1)
    shop.write(more=more)
    found = shop.run()
    assert set(found) == set(TABLES)
    assert {state for state, *_ in found.values()} == {"SUCCESS", "SKIPPED"}, (
        "the first run brought the others"
    )
    assert found["film_text"] == ("SUCCESS", 2, 2, 0, 0)
    assert found["visits"] == ("SUCCESS", 3, 3, 0, 0)
    every = shop.verify()
    assert set(every) == set(TABLES)
    assert all(one["equal"] for one in every.values())
    assert shop.copy.rows("SELECT COUNT(*) FROM rental") == [(16_000,)]
    for sql in (
        "SELECT address_id, ST_AsText(location), ST_SRID(location), HEX(location) FROM address ORDER BY 1",
        "SELECT film_id, third, rating, special_features, release_year FROM film ORDER BY 1",
        "SELECT actor_id, full_name FROM actor",
    ):
        assert [list(map(str, row)) for row in shop.copy.rows(sql)] == [
            list(map(str, row)) for row in shop.app.rows(sql)
        ]
    assert shop.copy.rows(
        "SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
        " AND COLUMN_NAME = 'location'"
    ) == [("geometry",)]
    shop.app.execute(
        "UPDATE film_text SET description = 'short' WHERE film_id = 2",
        "DELETE FROM visits WHERE who = 'a' LIMIT 1",
        "UPDATE address SET location = POINT(1, 1), last_update = NOW() - INTERVAL 1 MINUTE"
        " WHERE address_id = 2",
    )
    found = shop.run("--confirm-deletes")
    changed = {flow: counts for flow, (state, *counts) in found.items() if state == "SUCCESS"}
    assert changed == {"film_text": [1, 0, 1, 0], "visits": [0, 0, 0, 1], "address": [1, 0, 1, 0]}
    assert all(one["equal"] for one in shop.verify().values())


def test_a_schema_like_employees(mariadb: MariaDB, postgres: Postgres, tmp_path: Path) -> None:
    """It has no cursor anywhere."""
    shop = Shop(tmp_path, mysql_database(mariadb), postgres_database(postgres))
    shop.app.execute(*EMPLOYEES.split(";\n"))
    shop.write(more=", deletes: hard")
    shop.write(more=follow(shop, ", deletes: hard", code=2))
    assert {flow: counts[1] for flow, (_, *counts) in shop.run().items()} == {
        "departments": 2,
        "dept_emp": 500,
        "employees": 500,
        "salaries": 500,
    }
    shop.app.execute(
        "UPDATE dept_emp SET to_date = '2000-01-01' WHERE emp_no = 10007",
        "INSERT INTO dept_emp VALUES (10007, 'd002', '2000-01-01', '9999-01-01')",
        "DELETE FROM salaries WHERE emp_no = 10009",
    )
    assert shop.run() == {
        "departments": ("SKIPPED", 0, 0, 0, 0),
        "dept_emp": ("SUCCESS", 2, 1, 1, 0),
        "employees": ("SKIPPED", 0, 0, 0, 0),
        "salaries": ("SUCCESS", 0, 0, 0, 1),
    }
    assert all(one["equal"] for one in shop.verify().values())
