// Package server runs kube-apiserver with its usual flags and one change of its configuration.
package server

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

// Main runs kube-apiserver with the flags of this process. Errors begin with name. Main calls change with the
// configuration of the flags, before that configuration is completed.
func Main(name string, change func(*app.Config)) {
	if err := run(name, change); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(name string, change func(*app.Config)) error {
	ctx := genericapiserver.SetupSignalContext()
	serverOptions := options.NewServerRunOptions()

	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
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
	change(config)
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
