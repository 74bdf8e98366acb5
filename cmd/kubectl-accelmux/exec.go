package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

func newTopologyCommand(connection *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "topology NODE [-- FLAG...]",
		Short: "Show how the devices of a node are linked",
		Long: `Runs accelmux topology in the agent's pod of the node, which needs the right to exec into it. What follows -- are
flags of that command.`,
		Example: `  kubectl accelmux topology gpu-1
  kubectl accelmux topology gpu-1 -- -o tree
  kubectl accelmux topology gpu-1 -- explain -n 4`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connection.open()
			if err != nil {
				return err
			}
			agents, err := c.agents(cmd.Context())
			if err != nil {
				return explained(err)
			}
			a, ok := agents[args[0]]
			if !ok {
				return fmt.Errorf("no agent of accelmux runs on node %s", args[0])
			}
			return explained(c.exec(cmd.Context(), a, append([]string{"accelmux", "topology"}, args[1:]...), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
}

func newDoctorCommand(connection *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [NODE...]",
		Short: "Find where devices stop on the way to pods, and what to do",
		Long: `Runs accelmux doctor in the agents' pods of these nodes, or of all, which needs the right to exec into them. The exit
status is 1 if something stops.`,
		Example: `  kubectl accelmux doctor gpu-1`,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			c, err := connection.open()
			if err != nil {
				return err
			}
			agents, err := c.agents(cmd.Context())
			if err != nil {
				return explained(err)
			}
			if len(nodes) == 0 {
				nodes = slices.Sorted(maps.Keys(agents))
			}
			for _, node := range nodes {
				fmt.Fprintf(cmd.OutOrStdout(), "node %s\n\n", node)
				a, ok := agents[node]
				failed := fmt.Errorf("no agent of accelmux runs on node %s: look at the Events of the agents' DaemonSet", node)
				if ok {
					failed = c.exec(cmd.Context(), a, []string{"accelmux", "doctor"}, cmd.OutOrStdout(), cmd.ErrOrStderr())
				}
				if failed != nil && !errors.Is(failed, errReported) {
					fmt.Fprintln(cmd.ErrOrStderr(), explained(failed))
				}
				if failed != nil {
					err = errReported
				}
				fmt.Fprintln(cmd.OutOrStdout())
			}
			return err
		},
	}
}

// exec runs a command in the agent's pod. errReported if it ended with another exit status than 0.
func (c *cluster) exec(ctx context.Context, a agent, command []string, out, stderr io.Writer) error {
	request := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(a.namespace).Name(a.pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: a.container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	// As kubectl does: API servers before 1.30 have no WebSockets here.
	socket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", request.URL())
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: stderr})
	var status utilexec.CodeExitError
	if errors.As(err, &status) {
		return errReported
	}
	return err
}
