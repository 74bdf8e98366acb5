// Command kubectl-accelmux is the kubectl plugin `kubectl accelmux`: the accelerators of all nodes of a cluster.
//
// It reads Nodes, Pods, ResourceClaims and ResourceSlices with the user's own rights, and asks the agent of each node
// for what only the node knows, by the API server's proxy. The agents' answers have hashes for the names of pods and
// claims, as the proxy does not pass on who asks; the plugin finds the names among those that the user may list.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/arguments"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := newRootCommand()
	err := arguments.CheckCommand(root, os.Args[1:])
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted && errors.Is(err, context.Canceled):
		os.Exit(130)
	case errors.Is(err, errReported):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "kubectl accelmux:", err)
		os.Exit(1)
	}
}

// errReported is returned for an error that has been printed.
var errReported = errors.New("something is missing")

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-accelmux",
		Short: "The accelerators of a cluster's nodes: which are broken, and who has them",
		Long: `Shows the accelerators of a cluster's nodes, of any vendor and by either API: which are broken,
and who has them. It uses the rights of the kubeconfig's user; docs/kubectl.md has those that it needs.`,
		Version: version, SilenceErrors: true, SilenceUsage: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl accelmux"},
	}
	// As kubectl's, the help of a command has the command's own flags.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}",
		`"{{.Root.CommandPath}} --help" has the flags of all commands, such as --namespace and --context.`+"\n", 1))
	connection := newConnection(root.PersistentFlags())
	arguments.File(root, "kubeconfig")
	root.AddCommand(newDevicesCommand(connection), newPodsCommand(connection), newTopCommand(connection), newWhyCommand(connection),
		newCordonCommand(connection), newUncordonCommand(connection), newTopologyCommand(connection), newDoctorCommand(connection))
	arguments.Strict(root)
	return root
}
