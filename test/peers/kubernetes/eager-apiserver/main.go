// eager-apiserver is a real kube-apiserver that reconciles default/kubernetes five times a second instead of every ten
// seconds. The results of its reconciler are the same, but tests see them sooner.
package main

import (
	"time"

	"github.com/apiserver-bootstrap/apiserver-bootstrap/test/peers/kubernetes/server"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const interval = 200 * time.Millisecond

func main() {
	server.Main("eager-apiserver", func(config *app.Config) {
		config.KubeAPIs.Extra.EndpointReconcilerConfig.Interval = interval
	})
}
