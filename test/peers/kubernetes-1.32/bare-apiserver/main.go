// bare-apiserver is kube-apiserver 1.32 without its bootstrap. Like ../../kubernetes/bare-apiserver it disables four
// hooks by name. The two share no code, because they use different releases of the same packages.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

var bootstrapHooks = []string{
	"bootstrap-controller",
	"start-system-namespaces-controller",
	"start-kubernetes-service-cidr-controller",
	"start-service-ip-repair-controllers",
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "bare-apiserver-1.32: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := genericapiserver.SetupSignalContext()
	options := options.NewServerRunOptions()

	flags := pflag.NewFlagSet("bare-apiserver-1.32", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	sets := options.Flags()
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if err := featuregate.DefaultComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(options.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	completedOptions, err := options.Complete(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(completedOptions.Validate()...); err != nil {
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
