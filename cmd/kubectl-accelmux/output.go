package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
)

// watchInterval is how often -w asks again.
const watchInterval = 5 * time.Second

// output is how a list is printed.
type output struct {
	format    string
	noHeaders bool
	watch     bool
	// whole: -w prints the whole table each time, as most lines change.
	whole bool
}

// outputFlags adds the flags to a command, which refuses wrong ones before it runs.
func outputFlags(cmd *cobra.Command, whole bool) *output {
	o, flags := &output{whole: whole}, cmd.Flags()
	printed := "the lines that changed"
	if whole {
		printed = "the table again"
	}
	flags.StringVarP(&o.format, "output", "o", "", "output `format`: wide, json, yaml, name, jsonpath=TEMPLATE (default: a table)")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "print a table without its first line")
	flags.BoolVarP(&o.watch, "watch", "w", false, fmt.Sprintf("ask again every %s, and print %s", watchInterval, printed))
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.check() }
	return o
}

// list is what is printed: a table, and for programs its items with their names, one for each row.
type list struct {
	columns []metav1.TableColumnDefinition
	rows    [][]any
	names   []string
	items   any
}

// column is one of a table; one that is only in the wide table has priority 1.
func column(name string, priority int32) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Priority: priority}
}

// run prints what read returns, once or again and again. What read returned with errReported is printed, too.
func (o *output) run(cmd *cobra.Command, read func() (list, error)) error {
	before := map[string]bool{}
	for first := true; ; first = false {
		l, err := read()
		if err != nil && !errors.Is(err, errReported) {
			return explained(err)
		}
		if o.watch && !o.whole {
			l, before = l.without(before)
		}
		if first && len(l.rows) == 0 && (o.format == "" || o.format == "wide") {
			fmt.Fprintln(cmd.ErrOrStderr(), "nothing found")
		} else if first || len(l.rows) > 0 {
			if o.whole && !first {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			if err := o.print(cmd.OutOrStdout(), l, o.noHeaders || !first && !o.whole); err != nil {
				return err
			}
		}
		if !o.watch {
			return err
		}
		select {
		case <-time.After(watchInterval):
		case <-cmd.Context().Done():
			return nil
		}
	}
}

func (o *output) check() error {
	switch {
	case o.watch && o.format != "" && o.format != "wide":
		return errors.New("-w prints a table: use it without -o, or with -o wide")
	case strings.HasPrefix(o.format, "jsonpath="):
		if _, err := printers.NewJSONPathPrinter(strings.TrimPrefix(o.format, "jsonpath=")); err != nil {
			return fmt.Errorf("-o %s: %w", o.format, err)
		}
		return nil
	}
	switch o.format {
	case "", "wide", "json", "yaml", "name":
		return nil
	}
	return fmt.Errorf("unknown output format %q: use wide, json, yaml, name or jsonpath=TEMPLATE", o.format)
}

// without returns the list without the rows that were there before, and those that are there now.
func (l list) without(before map[string]bool) (list, map[string]bool) {
	now, changed := map[string]bool{}, list{columns: l.columns}
	for _, row := range l.rows {
		key := fmt.Sprint(row)
		now[key] = true
		if !before[key] {
			changed.rows = append(changed.rows, row)
		}
	}
	return changed, now
}

func (o *output) print(w io.Writer, l list, noHeaders bool) error {
	switch o.format {
	case "", "wide":
		table := &metav1.Table{ColumnDefinitions: l.columns}
		for _, cells := range l.rows {
			for i, cell := range cells {
				if cell == "" {
					cells[i] = "-"
				}
			}
			table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
		}
		return printers.NewTablePrinter(printers.PrintOptions{Wide: o.format == "wide", NoHeaders: noHeaders}).PrintObj(table, w)
	case "name":
		for _, name := range l.names {
			if _, err := fmt.Fprintln(w, name); err != nil {
				return err
			}
		}
		return nil
	}
	return o.printObject(w, l)
}

// printObject prints the items as a List, as kubectl does.
func (o *output) printObject(w io.Writer, l list) error {
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": l.items})
	if err != nil {
		return err
	}
	object := new(unstructured.Unstructured)
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&object.Object); err != nil {
		return err
	}
	var printer printers.ResourcePrinter = new(printers.JSONPrinter)
	switch template, isPath := strings.CutPrefix(o.format, "jsonpath="); {
	case isPath:
		byPath, err := printers.NewJSONPathPrinter(template)
		if err != nil {
			return err
		}
		byPath.AllowMissingKeys(true) // as kubectl does: a field that is empty is missing
		printer = byPath
	case o.format == "yaml":
		printer = new(printers.YAMLPrinter)
	}
	return printer.PrintObj(object, w)
}
