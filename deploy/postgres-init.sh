#!/bin/sh
# Run once by the database's container on an empty volume: a role without superuser rights that owns its
# database, and the extensions, which only an administrator may create.
set -eu
: "${POSTGRES_VOIDBOT_PASSWORD:?set POSTGRES_VOIDBOT_PASSWORD in postgres.env}"
psql --username postgres --no-psqlrc --set ON_ERROR_STOP=1 --set "password=$POSTGRES_VOIDBOT_PASSWORD" <<'SQL'
create role voidbot login nosuperuser nocreatedb nocreaterole password :'password';
create database voidbot owner voidbot;
revoke all on database voidbot from public;
\connect voidbot
create extension vector;
create extension pg_trgm;
create extension unaccent;
create extension btree_gin;
SQL
