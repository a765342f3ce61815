#!/bin/sh
# Start Redis with the users of redis-users.acl: redis-start.sh CONFIGURATION USERS [OPTION...]
#
# The password of user roboco-NAME is in the variable REDIS_PASSWORD_NAME ("-" is "_"). A user without a password is
# left out. The server gets SHA-256 digests of the passwords in a file that only its own user can read.
set -eu
umask 077
configuration=$1 users=$2
shift 2
made=${REDIS_USERS_MADE:-/run/redis/users.acl}
: >"$made"
while read -r word name rules; do
    case $name in
    default) echo "$word $name $rules" >>"$made" && continue ;;
    esac
    variable=REDIS_PASSWORD_$(echo "${name#roboco-}" | tr 'a-z-' 'A-Z_')
    eval "password=\${$variable:-}"
    [ -n "$password" ] || continue
    case $password in
    *[!A-Za-z0-9]*) echo "$variable: use letters and digits only, because the password becomes part of an address" >&2 && exit 64 ;;
    esac
    if [ ${#password} -lt 16 ]; then
        echo "$variable has ${#password} characters: use at least 16, for example of openssl rand -hex 24" >&2
        exit 64
    fi
    digest=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
    echo "$word $name $rules" | sed "s/>REPLACE-THIS/#$digest/" >>"$made"
    unset "$variable"
done <"$users"
exec redis-server "$configuration" --aclfile "$made" "$@"
