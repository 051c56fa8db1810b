//go:build tools

// Package main imports the command that `npm run peers` builds, so that go.mod requires its module.
package main

import _ "k8s.io/kubernetes/cmd/kubeadm"
