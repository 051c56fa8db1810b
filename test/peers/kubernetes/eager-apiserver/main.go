// eager-apiserver is a real kube-apiserver that looks after default/kubernetes five times a second instead of every ten seconds. What its
// reconciler makes of what it finds is the same; to find out takes less time.
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
