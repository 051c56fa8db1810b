#!/bin/sh
# Makes the certificates of the tests of the transport anew: valid for a hundred years, their keys worthless elsewhere.
set -eu
cd "$(dirname "$0")"
authority() { # file, common name
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj "/CN=$2" \
    -addext keyUsage=critical,keyCertSign -keyout "$1.key" -out "$1.crt"
}
leaf() { # file, subject, extensions
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr"
  printf '%b' "$3" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 36500 -extfile "$1.ext" -out "$1.crt"
  rm "$1.csr" "$1.ext"
}
authority ca 'test authority'
authority other-ca 'another authority'
leaf loopback /CN=loopback 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nextendedKeyUsage=serverAuth\n'
leaf cluster /CN=cluster 'subjectAltName=DNS:cluster.example.test,IP:192.0.2.1\nextendedKeyUsage=serverAuth\n'
leaf client-1 '/O=system:masters/CN=client-1' 'extendedKeyUsage=clientAuth\n'
leaf client-2 '/O=system:masters/CN=client-2' 'extendedKeyUsage=clientAuth\n'
rm ca.key ca.srl other-ca.key
