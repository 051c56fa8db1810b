#!/bin/sh
# Makes the certificates of the transport's tests anew: valid from 2020 to 2120, their keys worthless elsewhere.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/ca.cnf" <<CNF
[ca]
default_ca = default
[default]
dir = $work
new_certs_dir = $work
database = $work/index
serial = $work/serial
default_md = sha256
policy = any
unique_subject = no
email_in_dn = no
[any]
organizationName = optional
commonName = supplied
CNF
: >"$work/index"
echo 01 >"$work/serial"
dates='-startdate 20200101000000Z -enddate 21200101000000Z'
request() { # file, subject
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" -keyout "$1.key" -out "$work/csr"
}
authority() { # file, common name
  request "$1" "/CN=$2"
  printf 'basicConstraints = critical,CA:true\nkeyUsage = critical,keyCertSign\n' >"$work/ext"
  # shellcheck disable=SC2086
  openssl ca -batch -notext -config "$work/ca.cnf" -selfsign -keyfile "$1.key" $dates -extfile "$work/ext" -in "$work/csr" -out "$1.crt"
}
leaf() { # file, subject, extensions
  request "$1" "$2"
  printf '%s\n' "$3" >"$work/ext"
  # shellcheck disable=SC2086
  openssl ca -batch -notext -config "$work/ca.cnf" -cert ca.crt -keyfile ca.key $dates -extfile "$work/ext" -in "$work/csr" -out "$1.crt"
}
authority ca 'test authority'
authority other-ca 'another authority'
leaf loopback /CN=loopback 'subjectAltName = DNS:localhost,IP:127.0.0.1,IP:::1'
leaf cluster /CN=cluster 'subjectAltName = DNS:cluster.example.test,IP:192.0.2.1'
leaf client-1 /O=system:masters/CN=client-1 'extendedKeyUsage = clientAuth'
leaf client-2 /O=system:masters/CN=client-2 'extendedKeyUsage = clientAuth'
rm ca.key other-ca.key
