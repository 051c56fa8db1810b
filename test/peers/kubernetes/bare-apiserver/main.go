// bare-apiserver is a real kube-apiserver that nobody bootstraps: the hooks that create the system namespaces, the default
// ServiceCIDR and default/kubernetes, and that repair ClusterIPs and NodePorts, are disabled by name. Everything else is the
// ordinary server, started with its ordinary flags.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

var bootstrapHooks = []string{
	"bootstrap-controller",
	"start-system-namespaces-controller",
	"start-kubernetes-service-cidr-controller",
	"start-service-ip-repair-controllers",
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "bare-apiserver: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := genericapiserver.SetupSignalContext()
	serverOptions := options.NewServerRunOptions()

	flags := pflag.NewFlagSet("bare-apiserver", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	sets := serverOptions.Flags()
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}

	if err := serverOptions.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(serverOptions.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	completedOptions, err := serverOptions.Complete(ctx)
	if err != nil {
		return err
	}
	for _, invalid := range completedOptions.Validate() {
		err = invalid
	}
	if err != nil {
		return err
	}
	config, err := app.NewConfig(completedOptions)
	if err != nil {
		return err
	}
	config.KubeAPIs.ControlPlane.Generic.DisabledPostStartHooks.Insert(bootstrapHooks...)
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	chain, err := app.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}
