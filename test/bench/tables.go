package main

import (
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/accelmux/accelmux/test/bench/rig"
)

// The tables are between these lines of the README, under a heading each.
const (
	tablesBegin = "<!-- Written by make bench, from here -->\n"
	tablesEnd   = "<!-- to here -->\n"
	heading     = "### "
)

// writeTable puts a section's table in the place of the one that the README has of it.
func writeTable(path string, s rig.Section, machine string, figures []rig.Figure) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tablesBegin)
	tables, after, found := strings.Cut(rest, tablesEnd)
	if !ok || !found {
		return fmt.Errorf("%s has no lines %q and %q, between which the tables go", path, tablesBegin, tablesEnd)
	}
	kept := map[string]string{}
	for _, t := range strings.Split("\n"+tables, "\n"+heading)[1:] {
		name, body, _ := strings.Cut(t, "\n")
		kept[name] = heading + name + "\n" + strings.TrimRight(body, "\n") + "\n"
	}
	kept[s.Name] = table(s, machine, figures)
	var out strings.Builder
	for _, s := range sections {
		if t, ok := kept[s.Name]; ok {
			out.WriteString("\n" + t)
		}
	}
	return os.WriteFile(path, []byte(before+tablesBegin+out.String()+"\n"+tablesEnd+after), 0o644) //nolint:gosec // it is for everybody to read
}

// table is a section's, as Markdown.
func table(s rig.Section, machine string, figures []rig.Figure) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s%s\n\n%s\n%s.\n\n", heading, s.Name, s.About, machine)
	out.WriteString("| | value | floor | ratio | limit | | samples |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, f := range figures {
		floor, ratio, limit, samples := "", "", "", ""
		if f.Floor > 0 {
			floor, ratio = amount(f.Floor, f.Unit), fmt.Sprintf("%.2f", f.Value/f.Floor)
		}
		switch {
		case f.Times > 0:
			limit = fmt.Sprintf("%g ×", f.Times)
		case f.Limit > 0:
			limit = fmt.Sprintf("%g %s", f.Limit, f.Unit)
		}
		if f.Samples > 0 {
			samples = fmt.Sprint(f.Samples)
		}
		if f.Note != "" {
			samples = strings.TrimPrefix(samples+"; "+f.Note, "; ")
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %s |\n",
			f.What, amount(f.Value, f.Unit), floor, ratio, limit, f.Verdict(), samples)
	}
	return out.String()
}

// amount is a number with its unit, with three digits that count.
func amount(v float64, unit string) string {
	digits := 0
	if v != 0 {
		digits = min(max(2-int(math.Floor(math.Log10(math.Abs(v)))), 0), 6)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.*f %s", digits, v, unit), " ")
}
