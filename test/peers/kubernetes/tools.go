//go:build tools

// Package main imports the commands that `npm run peers` builds, so that go.mod requires their modules.
package main

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/pkg/controlplane/apiserver/samples/generic"
)
