package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/dra/allocator"
	"github.com/accelmux/accelmux/core/status"
)

// drawings are the values of -o for a topology: table is the matrix, inventory an inventoryFile.
var drawings = []string{"table", "tree", "json", "yaml", "inventory"}

func newTopologyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "topology [RESOURCE]",
		Short: "Show the links between the node's devices",
		Long: `Shows the devices of a resource, or of all resources, and the links between them: as a
matrix with a legend, with -o tree grouped by links, and with -o json or yaml for programs.
-o inventory also has the devices with all that is known of them and the ResourceSlices, for
"accelmux validate --against" and "explain --claim" on another machine.
The weights decide which devices a container gets; see "accelmux topology explain".

On large nodes, devices with the same links share a line, and devices that do not fit on
a page are only counted. --wide shows every device, as json and yaml always do.`,
		Example: `  accelmux topology
  accelmux topology amd.com/gpu -o tree
  accelmux topology -o json | jq '.[].links[] | select(.oneWay)'`,
		Args:              oneResource,
		ValidArgsFunction: completeResource,
		// cobra's default for commands that take no arguments.
		SuggestionsMinimumDistance: 2,
	}
	// For a mistyped "explain" with a flag of explain, report the former.
	command.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cmp.Or(oneResource(cmd, cmd.Flags().Args()), arguments.FlagError(cmd, err))
	})
	runDir := runDirFlag(command)
	format := outputFlag(command, drawings)
	wide := command.Flags().Bool("wide", false, "draw every device, also on large nodes")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*format, drawings); err != nil {
			return err
		}
		client := status.NewClient(*runDir)
		all, err := client.Topology(cmd.Context(), strings.Join(args, ""))
		if err != nil {
			return err
		}
		if *format == "inventory" {
			saved := inventoryFile{Inventory: allocator.Inventory{Resources: all}}
			if saved.Slices, err = client.Slices(cmd.Context()); err != nil {
				return err
			}
			if saved.Node, err = readNode(cmd, *runDir); err != nil {
				return err
			}
			return printAs(cmd.OutOrStdout(), "yaml", saved, nil)
		}
		return draw(cmd.OutOrStdout(), *format, all, diagram.Size(*wide))
	}
	command.AddCommand(newExplainCommand())
	return command
}

// oneResource accepts at most one argument, the name of a resource. It suggests a command for a
// mistyped one.
func oneResource(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		hint := fmt.Sprintf(": `%s`", cmd.UseLine())
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("; did you mean %q?", cmd.CommandPath()+" "+near[0])
		}
		return fmt.Errorf("%q is not the name of a resource, such as nvidia.com/gpu%s", args[0], hint)
	}
	return arguments.AtMost(1)(cmd, args)
}

// draw prints topologies in a format.
func draw(w io.Writer, format string, all []diagram.Topology, size diagram.Size) error {
	one := diagram.Matrix
	switch format {
	case "json", "yaml":
		return printAs(w, format, all, nil)
	case "tree":
		one = diagram.Tree
	}
	for i := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		one(w, &all[i], size)
	}
	if len(all) == 0 {
		fmt.Fprintln(w, "the agent serves no resource; see accelmux status")
	}
	return nil
}

func newExplainCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "explain -n COUNT [RESOURCE] | --claim FILE",
		Short: "Explain which devices a container or a claim would get now",
		Long: `Shows which units of a resource the agent would recommend to kubelet for a container that
requests COUNT: the set, its score in each criterion of the resource's policy, in order,
the best other set and where it scores lower, and what remains for the next container. A
unit is a device, or a replica of a shared one.

The choice is among the units that are free now, or those that --available lists: units,
devices with all their units, or "all", as if nothing were in use. Nothing is allocated.

With --claim it shows which devices the scheduler gives to the ResourceClaims and
ResourceClaimTemplates of FILE on this node, one after the other: the devices, their links,
whether free devices have better ones, and the constraint that gives these. It uses the
allocator of the scheduler. The DeviceClasses are those of FILE, and those that the chart
makes of resources. Devices of claims that are allocated but not yet prepared count as free.`,
		Example: `  accelmux topology explain -n 4
  accelmux topology explain -n 2 nvidia.com/gpu --available all -o json
  accelmux topology explain -n 2 --must gpu-3 --available gpu-1,gpu-2,gpu-6
  accelmux topology explain --claim deployments/examples/dra/links/manifest.yaml`,
		Args:              oneResource,
		ValidArgsFunction: completeResource,
	}
	var question diagram.Question
	flags := command.Flags()
	flags.IntVarP(&question.Size, "count", "n", 0, "`number` of units that the container requests")
	flags.StringVar(&question.Resource, "resource", "", "`name` of the resource, instead of RESOURCE; optional if there is only one")
	flags.StringSliceVar(&question.Must, "must", nil, "`IDs` of units that the set must contain")
	flags.StringSliceVar(&question.Available, "available", nil, "`IDs` of units and devices to choose from, or all")
	cobra.CheckErr(command.RegisterFlagCompletionFunc("resource", completeResource))
	var claim claimFlags
	flags.StringVar(&claim.manifest, "claim", "", "`FILE` with ResourceClaims or ResourceClaimTemplates; - for standard input")
	flags.StringVar(&claim.inventory, "inventory", "", "`FILE` of \"accelmux topology -o inventory\", instead of the running agent; with --claim")
	arguments.File(command, "claim", "yaml", "yml", "json")
	arguments.File(command, "inventory", "yaml", "yml")
	arguments.Needs(command, "claim", "inventory")
	runDir := runDirFlag(command)
	format := outputFlag(command, outputFormats)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*format, outputFormats); err != nil {
			return err
		}
		if claim.manifest != "" {
			return claim.explain(cmd, args, status.NewClient(*runDir), *format)
		}
		if err := complete(&question, cmd, args); err != nil {
			return err
		}
		choice, err := status.NewClient(*runDir).Explain(cmd.Context(), question)
		if err != nil {
			return err
		}
		return printAs(cmd.OutOrStdout(), *format, choice, func(w *tabwriter.Writer) { diagram.Reasons(w, &choice) })
	}
	return command
}

// complete fills the question from flags and arguments.
func complete(question *diagram.Question, cmd *cobra.Command, args []string) error {
	if !cmd.Flags().Changed("count") {
		return errors.New("set -n to the number of units that the container requests")
	}
	for _, name := range args {
		if question.Resource != "" && question.Resource != name {
			return fmt.Errorf("give one resource, not %s and %s", name, question.Resource)
		}
		question.Resource = name
	}
	question.Must, question.Available = trimmed(question.Must), trimmed(question.Available)
	if cmd.Flags().Changed("available") && len(question.Available) == 0 {
		return errors.New("--available is empty: list units, use all, or omit it for the units that are free now")
	}
	if question.All = slices.Contains(question.Available, "all"); question.All {
		question.Available = nil
	}
	return nil
}

// trimmed returns the IDs without surrounding blanks, and without empty ones.
func trimmed(ids []string) (out []string) {
	for _, id := range ids {
		if id = strings.TrimSpace(id); id != "" {
			out = append(out, id)
		}
	}
	return out
}

// completeResource completes the names of the running agent's resources.
func completeResource(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	runDir, err := cmd.Flags().GetString("run-dir")
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	report, err := status.NewClient(runDir).Report(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, r := range report.Resources {
		names = append(names, r.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
