package main

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/accelmux/accelmux/cmd/arguments"
)

func newTopologyCommand(connection *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology NODE [-- FLAG...]",
		Short: "Show how the devices of a node are linked",
		Long: `Runs accelmux topology in the agent's pod of the node, which needs the right to exec into it. What follows -- are
flags of that command.`,
		Example: `  kubectl accelmux topology gpu-1
  kubectl accelmux topology gpu-1 -- -o tree
  kubectl accelmux topology gpu-1 -- explain -n 4`,
		Args: arguments.AtLeast(1),
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
				return c.noAgent(cmd.Context(), args[0])
			}
			return explained(c.exec(cmd.Context(), a, append([]string{"accelmux", "topology"}, args[1:]...), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; those of accelmux topology go after --, as in `%s NODE -- -o tree`", arguments.FlagError(cmd, err), cmd.CommandPath())
	})
	return cmd
}

func newDoctorCommand(connection *connection) *cobra.Command {
	out := new(output)
	cmd := &cobra.Command{
		Use:   "doctor [NODE...]",
		Short: "Find where devices stop on the way to pods, and what to do",
		Long: `Runs accelmux doctor in the agents' pods of these nodes, or of all, which needs the right to exec into them. The exit
status is 1 if something stops.`,
		Example: `  kubectl accelmux doctor gpu-1
  kubectl accelmux doctor -o jsonpath='{range .items[*].devices[?(@.state=="stops")]}{.id} {.stopsAt}{"\n"}{end}'`,
	}
	cmd.Flags().StringVarP(&out.format, "output", "o", "", "output `format`: json, yaml, jsonpath=TEMPLATE (default: a table a node)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if out.format == "name" || out.format == "wide" {
			return fmt.Errorf("-o %s is not possible: use json, yaml or jsonpath=TEMPLATE", out.format)
		}
		return out.check()
	}
	cmd.RunE = func(cmd *cobra.Command, nodes []string) error {
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
		if len(nodes) == 0 {
			return fmt.Errorf("no agent of accelmux runs in this cluster: no running pod has the labels %s", c.agentSelector)
		}
		results := []map[string]any{}
		for _, node := range nodes {
			result, failed := c.doctor(cmd, node, agents, out.format == "")
			if failed != nil && !errors.Is(failed, errReported) {
				fmt.Fprintln(cmd.ErrOrStderr(), explained(failed))
			}
			if failed != nil {
				err = errReported
			}
			if result != nil {
				results = append(results, result)
			}
		}
		if out.format != "" {
			err = errors.Join(err, out.printObject(cmd.OutOrStdout(), list{items: results}))
		}
		return err
	}
	return cmd
}

// doctor runs accelmux doctor on a node. It prints what that prints, as a table; or else returns its result, with the node.
func (c *cluster) doctor(cmd *cobra.Command, node string, agents map[string]agent, asTable bool) (map[string]any, error) {
	a, ok := agents[node]
	if !ok {
		return nil, c.noAgent(cmd.Context(), node)
	}
	command := []string{"accelmux", "doctor"}
	if asTable {
		fmt.Fprintf(cmd.OutOrStdout(), "node %s\n\n", node)
		defer fmt.Fprintln(cmd.OutOrStdout())
		var stderr bytes.Buffer // printed after the table
		err := c.exec(cmd.Context(), a, command, cmd.OutOrStdout(), &stderr)
		_, _ = stderr.WriteTo(cmd.ErrOrStderr())
		return nil, err
	}
	var text bytes.Buffer
	failed := c.exec(cmd.Context(), a, append(command, "-o=json"), &text, io.Discard)
	var result map[string]any
	if err := json.Unmarshal(text.Bytes(), &result); err != nil {
		return nil, errors.Join(failed, fmt.Errorf("the answer of the doctor on node %s cannot be read: %w", node, err))
	}
	result["node"] = node
	return result, failed
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
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return errReported
	}
	return fmt.Errorf("run accelmux in pod %s/%s: %w", a.namespace, a.pod, err)
}
