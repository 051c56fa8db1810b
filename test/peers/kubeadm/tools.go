//go:build tools

// Package main keeps the command that `npm run peers` builds in go.mod.
package main

import _ "k8s.io/kubernetes/cmd/kubeadm"
