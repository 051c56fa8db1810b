// bare-apiserver is a real kube-apiserver without its bootstrap. It disables by name the hooks that create the system
// namespaces, the default ServiceCIDR and default/kubernetes, and those that repair ClusterIPs and NodePorts. Everything
// else is the unchanged server with its usual flags.
package main

import (
	"github.com/apiserver-bootstrap/apiserver-bootstrap/test/peers/kubernetes/server"

	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

var bootstrapHooks = []string{
	"bootstrap-controller",
	"start-system-namespaces-controller",
	"start-kubernetes-service-cidr-controller",
	"start-service-ip-repair-controllers",
}

func main() {
	server.Main("bare-apiserver", func(config *app.Config) {
		config.KubeAPIs.ControlPlane.Generic.DisabledPostStartHooks.Insert(bootstrapHooks...)
	})
}
