package main

import (
	"errors"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/accelmux/validate"
	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/status"
)

func newValidateCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a node configuration without running it",
		Long: `Checks a node configuration as "accelmux run" would, and prints every error with file, line, column and
field. By the manifests in the backend directory it also checks the names of backends, their settings and the names of
classes, attributes, capacities and parameters; it starts no program. A resource that is empty because no backend has a
name in it is an error. What no agent refuses, and its author hardly means, is a warning: a resource that an earlier one or
the settings leave no device, a parameter that no backend has, a profile that no node can choose. What only the hardware
can show is found when the backend runs. FILE may be - for standard input. The exit status is 1 if there is an error.

With --against it also prints what would change on a node: resources that appear and vanish, devices that move to
another resource or API, and the pods and claims that keep theirs until they end. Nothing is changed.`,
		Example: `  accelmux validate /etc/accelmux/node.yaml
  accelmux validate new.yaml --against /run/accelmux
  kubectl accelmux topology gpu-1 -- -o inventory | accelmux validate new.yaml --against -
  helm template accelmux -s templates/configmap.yaml | yq '.data["node.yaml"]' | accelmux validate -`,
		Args: arguments.OneFile,
	}
	var against, profile string
	command.Flags().StringVar(&against, "against", "", "compare with a node: the run `DIR`ectory of its agent, the FILE of \"accelmux topology -o inventory\", or - for standard input")
	command.Flags().StringVar(&profile, "profile", "", "`name` of a profile that the configuration must have; with --against the one that the node would have (default: the one in force, or the only one)")
	backendDir := command.Flags().String("backend-dir", programDir(), "`dir`ectory of the backend programs; only its owner may have write permission")
	arguments.Dirs(command, "backend-dir")
	format := outputFlag(command, outputFormats)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*format, outputFormats); err != nil {
			return err
		}
		if args[0] == "-" && against == "-" {
			return errors.New("only one of FILE and --against can be standard input")
		}
		file, data, err := readConfig(args[0], cmd.InOrStdin())
		if err != nil {
			return err
		}
		result := validate.Run(cmd.Context(), file, data, *backendDir, profile)
		if against != "" && result.Err() == nil {
			node, err := readNode(cmd, against)
			if err == nil {
				result.Changes, err = validate.Compare(result.Config, node, profile)
			}
			if err != nil {
				return err
			}
		}
		if err := printAs(cmd.OutOrStdout(), *format, result, func(w *tabwriter.Writer) { result.Write(w) }); err != nil {
			return err
		}
		return result.Err()
	}
	return command
}

// readConfig reads a configuration file, or standard input for -, and returns its name for messages, too.
func readConfig(path string, stdin io.Reader) (name string, data []byte, err error) {
	if path != "-" {
		data, err = config.ReadFile(path)
		return path, data, err
	}
	data, err = io.ReadAll(io.LimitReader(stdin, config.MaxFileSize+1))
	return validate.StandardInput, data, err
}

// readNode reads a saved node, or asks the agent whose run directory is path.
func readNode(cmd *cobra.Command, path string) (validate.Node, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		saved, err := readInventory(path, cmd.InOrStdin())
		return saved.Node, err
	}
	client := status.NewClient(path)
	report, err := client.Report(cmd.Context())
	if err != nil {
		return validate.Node{}, err
	}
	devices, err := client.Devices(cmd.Context())
	return validate.NodeOf(report, devices), err
}
