package xid

import (
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
)

// The supported environment variables of NVIDIA's device plugin.
const (
	EnvDisable = "DP_DISABLE_HEALTHCHECKS"
	EnvEnable  = "DP_ENABLE_HEALTHCHECKS"
)

// settingsSource is the source of rows that settings overrule.
const settingsSource = "settings"

// Settings overrule the table. The zero value changes nothing.
type Settings struct {
	// Table, if set, replaces all built-in rows. Keys are XIDs.
	Table map[string]Verdict `json:"table"`
	// Rows are added, or replace rows of the same XID.
	Rows map[string]Verdict `json:"rows"`
	// Ignore are XIDs to ignore. One that is also in Rows is refused.
	Ignore []uint64 `json:"ignore"`
	// Unknown is the verdict on codes that are in no row; default reset.
	Unknown Verdict `json:"unknown"`
}

// Environment has the variables that overrule the table: lists of XIDs with commas, or
// "all" or "xids" for all of them.
type Environment struct {
	Disable string // the value of [EnvDisable]
	Enable  string // the value of [EnvEnable]
}

// Table has the meaning of each XID. It never changes.
type Table struct {
	rows    map[uint64]Row
	unknown Row
	off     bool
}

// New overrules the built-in rows, in this order:
// Settings.Table, [EnvDisable], [EnvEnable], Settings.Rows, Settings.Ignore. The
// error is an [sdk.FieldErrors] whose paths begin with at, which may be empty.
// For a mistake in a variable the field is the variable's name.
func New(at string, s Settings, env Environment) (*Table, error) {
	known, err := rows()
	if err != nil {
		return nil, err
	}
	var errs sdk.FieldErrors
	t := &Table{rows: maps.Clone(known), unknown: Row{Verdict: Reset, Source: "unknown"}}
	if s.Unknown != "" {
		t.unknown.Verdict = s.Unknown
	}
	if s.Table != nil {
		t.rows = map[uint64]Row{}
		t.overrule(s.Table, known, field(at, "table"), &errs)
	}
	disable := parseList(EnvDisable, env.Disable, &errs)
	enable := parseList(EnvEnable, env.Enable, &errs)
	before := maps.Clone(t.rows)
	t.disable(disable)
	t.enable(enable, before)
	t.overrule(s.Rows, known, field(at, "rows"), &errs)
	ignored := map[string]Verdict{}
	for _, code := range s.Ignore {
		text := format(code)
		if _, twice := s.Rows[text]; twice {
			errs.Add(field(at, "ignore"), "XID %s is in rows too; keep it in one of the two", text)
		}
		ignored[text] = Ignore
	}
	t.overrule(ignored, known, field(at, "ignore"), &errs)
	return t, errs.Err()
}

// overrule sets verdicts.
func (t *Table) overrule(verdicts map[string]Verdict, known map[uint64]Row, at string, errs *sdk.FieldErrors) {
	for _, text := range slices.Sorted(maps.Keys(verdicts)) {
		code, err := parseXID(text)
		if err != nil {
			errs.Add(field(at, text), "%s", err)
			continue
		}
		if verdicts[text] == "" {
			errs.Add(field(at, text), "needs a verdict: ignore, application, reset, reboot or replace")
			continue
		}
		row := known[code]
		row.XID, row.Verdict, row.Source = code, verdicts[text], settingsSource
		t.rows[code] = row
	}
}

// codes are the XIDs in an environment variable.
type codes struct {
	all  bool
	list []uint64
}

// parseList reads a variable as NVIDIA's plugin does (ignoring case, spaces and empty
// entries), but refuses invalid entries, which the plugin drops silently.
func parseList(name, text string, errs *sdk.FieldErrors) codes {
	var c codes
	for item := range strings.SplitSeq(text, ",") {
		item = strings.ToLower(strings.TrimSpace(item))
		switch item {
		case "":
		case "all", "xids":
			c.all = true
		default:
			code, err := parseXID(item)
			if err != nil {
				errs.Add(name, `%s; or "all"`, err)
				continue
			}
			c.list = append(c.list, code)
		}
	}
	return c
}

func (t *Table) disable(c codes) {
	if c.all {
		t.off = true
		for code, row := range t.rows {
			row.Verdict, row.Source = Ignore, EnvDisable
			t.rows[code] = row
		}
		t.unknown = Row{Verdict: Ignore, Source: EnvDisable}
	}
	for _, code := range c.list {
		row := t.rows[code]
		row.XID, row.Verdict, row.Source = code, Ignore, EnvDisable
		t.rows[code] = row
	}
}

// enable makes codes faults: with the table's verdict if that is a fault, otherwise
// with Reset.
func (t *Table) enable(c codes, before map[uint64]Row) {
	fault := func(row Row) Row {
		if !row.Verdict.Fault() {
			row.Verdict = Reset
		}
		row.Source = EnvEnable
		return row
	}
	if c.all {
		t.off = false
		t.rows = map[uint64]Row{}
		for code, row := range before {
			t.rows[code] = fault(row)
		}
		t.unknown = fault(t.unknown)
	}
	for _, code := range c.list {
		row := before[code]
		row.XID = code
		t.rows[code] = fault(row)
	}
}

// Lookup returns the row of a code, known or not.
func (t *Table) Lookup(code uint64) Row {
	if row, ok := t.rows[code]; ok {
		return row
	}
	row := t.unknown
	row.XID = code
	return row
}

// Rows returns all rows, by XID.
func (t *Table) Rows() []Row {
	out := make([]Row, 0, len(t.rows))
	for _, code := range slices.Sorted(maps.Keys(t.rows)) {
		out = append(out, t.rows[code])
	}
	return out
}

// Off reports whether [EnvDisable] switched off all checks. Then the driver's recovery
// action alone is no fault either; only codes that were switched on again are
// faults.
func (t *Table) Off() bool { return t.off }

// field appends a name to a path.
func field(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
