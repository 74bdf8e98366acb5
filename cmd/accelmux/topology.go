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

	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/status"
)

// drawings are the values of -o for a topology: table is the matrix.
var drawings = []string{"table", "tree", "json", "yaml", "dot"}

func newTopologyCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "topology [RESOURCE]",
		Short: "Show how the node's devices are linked, and why devices are chosen",
		Long: `Shows the devices of a resource, or of all, and the links among them: as a matrix
with a legend, with -o tree as the links group them, with -o dot for graphviz, and
with -o json or yaml for programs. The weights are what counts when devices are
chosen for a container; see "accelmux topology explain".

Of many devices those with the same links share a line, and what does not fit on a
page is counted; --wide has everything, as json and yaml always have.`,
		Example: `  accelmux topology
  accelmux topology amd.com/gpu -o dot | dot -Tsvg > node.svg
  accelmux topology -o json | jq '.[].links[] | select(.oneWay)'`,
		Args:              oneResource,
		ValidArgsFunction: completeResource,
		// As far as cobra goes for commands that take no arguments.
		SuggestionsMinimumDistance: 2,
	}
	// A flag of explain behind a mistyped explain is not what is wrong.
	command.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cmp.Or(oneResource(cmd, cmd.Flags().Args()), err)
	})
	runDir := runDirFlag(command)
	format := outputFlag(command, drawings)
	wide := command.Flags().Bool("wide", false, "draw every device, however many there are")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*format, drawings); err != nil {
			return err
		}
		all, err := status.NewClient(*runDir).Topology(cmd.Context(), strings.Join(args, ""))
		if err != nil {
			return err
		}
		return draw(cmd.OutOrStdout(), *format, all, diagram.Size(*wide))
	}
	command.AddCommand(newExplainCommand())
	return command
}

// oneResource wants the name of a resource, or nothing; a mistyped command is no name.
func oneResource(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("; did you mean %q?", cmd.CommandPath()+" "+near[0])
		}
		return fmt.Errorf("%q is not the name of a resource, such as nvidia.com/gpu%s", args[0], hint)
	}
	return cobra.MaximumNArgs(1)(cmd, args)
}

// draw prints topologies in a format.
func draw(w io.Writer, format string, all []diagram.Topology, size diagram.Size) error {
	one := diagram.Matrix
	switch format {
	case "json", "yaml":
		return printAs(w, format, all, nil)
	case "dot":
		diagram.Dot(w, all, size)
		return nil
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
		fmt.Fprintln(w, "the agent has no resource to offer; accelmux status says why")
	}
	return nil
}

func newExplainCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "explain -n COUNT [RESOURCE]",
		Short: "Say which devices a container would get now, and why",
		Long: `Says which units of a resource the agent would recommend to kubelet for a container
that asks for so many: the set, what it counts for in each part that the policy of the
resource compares, in that order, the best other set and where that loses, and what
remains for the next container. A unit is a device, or a replica of a shared one.

What may be chosen is what is free now, or what --available names: units, devices with
all that is in them, or "all", as if nothing were in use. Nothing is allocated.`,
		Example: `  accelmux topology explain -n 4
  accelmux topology explain -n 2 nvidia.com/gpu --available all -o json
  accelmux topology explain -n 2 --must gpu-3 --available gpu-1,gpu-2,gpu-6`,
		Args:              oneResource,
		ValidArgsFunction: completeResource,
	}
	var question diagram.Question
	flags := command.Flags()
	flags.IntVarP(&question.Size, "count", "n", 0, "how many units are asked for")
	flags.StringVar(&question.Resource, "resource", "", "`name` of the resource, instead of RESOURCE; may be left out if there is one only")
	flags.StringSliceVar(&question.Must, "must", nil, "`IDs` of units that must be among them")
	flags.StringSliceVar(&question.Available, "available", nil, "`IDs` of what may be chosen, or all")
	cobra.CheckErr(command.RegisterFlagCompletionFunc("resource", completeResource))
	runDir := runDirFlag(command)
	format := outputFlag(command, outputFormats)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(*format, outputFormats); err != nil {
			return err
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

// complete makes a question of its flags and arguments, or says what is wrong.
func complete(question *diagram.Question, cmd *cobra.Command, args []string) error {
	if !cmd.Flags().Changed("count") {
		return errors.New("say with -n how many units a container asks for")
	}
	for _, name := range args {
		if question.Resource != "" && question.Resource != name {
			return fmt.Errorf("name one resource, not %s and %s", name, question.Resource)
		}
		question.Resource = name
	}
	question.Must, question.Available = trimmed(question.Must), trimmed(question.Available)
	if cmd.Flags().Changed("available") && len(question.Available) == 0 {
		return errors.New("--available is empty: name units, or say all, or leave it out for what is free now")
	}
	if question.All = slices.Contains(question.Available, "all"); question.All {
		question.Available = nil
	}
	return nil
}

// trimmed are IDs without the blanks around them, and without empty ones.
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
