package main

import (
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/accelmux/validate"
	"github.com/accelmux/accelmux/core/config"
)

func newValidateCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a node configuration without running it",
		Long: `Checks a node configuration as "accelmux run" would, and prints every error with file, line, column and
field. The program of each backend is started for a moment and not configured: by what it declares, its settings
are checked, and the names of classes, attributes, capacities and parameters. A name that no backend has is a
warning, and so is a resource that can have no device. What only the hardware can show is found when the backend
runs. FILE may be - for standard input. The exit status is 1 if there is an error.`,
		Example: `  accelmux validate /etc/accelmux/node.yaml
  helm template accelmux -s templates/configmap.yaml | yq '.data["node.yaml"]' | accelmux validate -`,
		Args: oneFile,
	}
	backendDir := command.Flags().String("backend-dir", programDir(), "`dir`ectory of the backend programs; only its owner may have write permission")
	completeDirs(command, "backend-dir")
	format := outputFlag(command, outputFormats)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*format, outputFormats); err != nil {
			return err
		}
		file, data, err := readConfig(args[0], cmd.InOrStdin())
		if err != nil {
			return err
		}
		result := validate.Run(cmd.Context(), file, data, *backendDir)
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
