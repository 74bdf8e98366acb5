package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/config"
)

func newValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a node configuration without running it",
		Long: `Checks a node configuration as "accelmux run" would: it prints every error with
file, line and field. It cannot check backend settings: the backend does when it runs.`,
		Example: "  accelmux validate /etc/accelmux/node.yaml",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := config.Load(args[0])
			if err != nil {
				return err
			}
			for _, profile := range loaded.Profiles {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: profile %s is valid (backends: %d, resources: %d)\n",
					args[0], profile.Name, len(profile.Backends), len(profile.Resources))
				for _, b := range profile.Backends {
					if b.Allow.AllowsNothing() {
						fmt.Fprintf(cmd.OutOrStdout(), "%s: backend %s may give nothing to containers: accept what it declares with allow: {declared: accept}, or list it in allow\n",
							args[0], b.Name)
					}
				}
			}
			return nil
		},
	}
}
