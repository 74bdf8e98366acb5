package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/suggestion"
)

// outputFormats are the values of -o, except for commands that draw.
var outputFormats = []string{"table", "json", "yaml"}

// outputFlag adds -o to a command, with completion; the first format is the default.
func outputFlag(cmd *cobra.Command, formats []string) *string {
	format := cmd.Flags().StringP("output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	return format
}

// checkOutput refuses an unknown format. Call it before any work.
func checkOutput(format string, formats []string) error {
	if slices.Contains(formats, format) {
		return nil
	}
	return fmt.Errorf("unknown output format %q%s", format, suggestion.OrAll(format, "use one of", formats))
}

// runDirFlag adds --run-dir, the run directory of the agent to ask. The variable ACCELMUX_RUN_DIR is its default.
func runDirFlag(cmd *cobra.Command) *string {
	runDir := cmd.Flags().String("run-dir", cmp.Or(os.Getenv("ACCELMUX_RUN_DIR"), defaultRunDir), "run `dir`ectory of the agent; its default is $ACCELMUX_RUN_DIR, if that is set")
	completeDirs(cmd, "run-dir")
	return runDir
}

// newAskCommand makes a command that asks the running agent for a value and prints it, by
// default as a table; texts are further formats.
func newAskCommand[T any](command *cobra.Command, ask func(*status.Client, context.Context) (T, error), table func(*tabwriter.Writer, T), texts ...textFormat[T]) *cobra.Command {
	command.Args = arguments.None
	formats := slices.Clone(outputFormats)
	for _, text := range texts {
		formats = append(formats, text.name)
	}
	runDir := runDirFlag(command)
	format := outputFlag(command, formats)
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOutput(*format, formats); err != nil {
			return err
		}
		answer, err := ask(status.NewClient(*runDir), cmd.Context())
		if err != nil {
			return err
		}
		write := table
		for _, text := range texts {
			if text.name == *format {
				write = text.write
			}
		}
		out := cmd.OutOrStdout()
		if *format == "json" || *format == "yaml" {
			return printAs(out, *format, answer, nil)
		}
		var text bytes.Buffer
		if err := printAs(&text, *format, answer, func(w *tabwriter.Writer) { write(w, answer) }); err != nil {
			return err
		}
		_, err = io.WriteString(out, paint(text.String(), out))
		return err
	}
	return command
}

// textFormat is a value of -o for people or scripts.
type textFormat[T any] struct {
	name  string
	write func(*tabwriter.Writer, T)
}

// printAs prints value as JSON or YAML, or calls table.
func printAs(w io.Writer, format string, value any, table func(*tabwriter.Writer)) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case "yaml":
		return printYAML(w, value)
	}
	writer := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	table(writer)
	return writer.Flush()
}

// printYAML prints a list element by element: encoding all at once takes 17 kB of memory for
// each device.
func printYAML(w io.Writer, value any) error {
	parts := []any{value}
	if list := reflect.ValueOf(value); list.Kind() == reflect.Slice && list.Len() > 0 {
		parts = parts[:0]
		for i := range list.Len() {
			parts = append(parts, list.Slice(i, i+1).Interface())
		}
	}
	for _, part := range parts {
		text, err := yaml.Marshal(part)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// row prints one line of a table; an empty cell becomes a dash.
func row(w io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = fmt.Sprint(cell)
		if texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(w, strings.Join(texts, "\t"))
}

// fittingTable prints the columns that fit into width characters, all if it is 0: without as many of dropped as needed,
// the first one first.
func fittingTable(w io.Writer, width int, columns, dropped []string, rows [][]any) {
	total := -2 // two spaces are between columns
	widths := map[string]int{}
	for i, name := range columns {
		widths[name] = len(name)
		for _, cells := range rows {
			widths[name] = max(widths[name], utf8.RuneCountInString(fmt.Sprint(cells[i])))
		}
		total += widths[name] + 2
	}
	left := map[string]bool{}
	for _, name := range dropped {
		if width == 0 || total <= width {
			break
		}
		left[name] = true
		total -= widths[name] + 2
	}
	print := func(cell func(column int) any) {
		var shown []any
		for i, name := range columns {
			if !left[name] {
				shown = append(shown, cell(i))
			}
		}
		row(w, shown...)
	}
	print(func(column int) any { return columns[column] })
	for _, cells := range rows {
		print(func(column int) any { return cells[column] })
	}
}

// age returns the time since t, in whole seconds: "3m12s"; "" for the zero time.
func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return max(time.Since(t), 0).Truncate(time.Second).String()
}
