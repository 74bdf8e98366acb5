package xid

import (
	"slices"
	"strings"
	"testing"
)

// The most important verdicts of the built-in table.
func TestBuiltinVerdicts(t *testing.T) {
	table, err := New("", Settings{}, Environment{})
	if err != nil {
		t.Fatal(err)
	}
	for verdict, list := range map[Verdict][]uint64{
		Application: {13, 31, 32, 43, 45, 68, 94, 100, 137},
		Ignore:      {14, 63, 92, 106, 121},
		Reset:       {46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 144, 150, 154, 156, 158},
		Reboot:      {79, 151},
		Replace:     {54},
	} {
		for _, code := range list {
			if row := table.Lookup(code); row.Verdict != verdict {
				t.Errorf("XID %d: got %s, want %s", code, row.Verdict, verdict)
			}
		}
	}
	if row := table.Lookup(9999); row.Verdict != Reset || row.XID != 9999 || row.Source != "unknown" {
		t.Errorf("an unknown XID is %+v, want a reset", row)
	}
}

// Every row has a source that the head of the table explains, and a short text of its
// own on what happened.
func TestBuiltinRows(t *testing.T) {
	table, err := New("", Settings{}, Environment{})
	if err != nil {
		t.Fatal(err)
	}
	known := []string{
		"IGNORE", "RESTART_APP", "RESET_GPU", "RESTART_BM", "RESTART_VM", "CHECK_MECHANICALS", "CHECK_UVM",
		"UPDATE_SWFW", "WORKFLOW_XID_45", "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR", "WORKFLOW_NVLINK5_ERR",
		"XID_154", "memory", "retirement", "plugin", "ours",
	}
	// The action in NVIDIA's catalogue limits the verdict of the row.
	bucket := map[string][]Verdict{
		"IGNORE": {Ignore, Application}, "RESTART_APP": {Application}, "RESET_GPU": {Reset},
		"RESTART_BM": {Reboot}, "RESTART_VM": {Reboot}, "CHECK_MECHANICALS": {Replace},
	}
	if n := len(table.Rows()); n < 100 {
		t.Errorf("only %d XIDs are in the table", n)
	}
	for _, row := range table.Rows() {
		for _, source := range strings.Fields(row.Source) {
			if !slices.Contains(known, source) {
				t.Errorf("XID %d: source %q is explained nowhere", row.XID, source)
			}
			if want, ok := bucket[source]; ok && !slices.Contains(want, row.Verdict) {
				t.Errorf("XID %d: the catalogue says %s, the row %s", row.XID, source, row.Verdict)
			}
			if source == "plugin" && row.Verdict.Fault() {
				t.Errorf("XID %d: a fault that NVIDIA's plugin ignores is no agreement", row.XID)
			}
		}
		if n := len(row.Means); n < 10 || n > 120 {
			t.Errorf("XID %d: %d characters of meaning are too few or too many", row.XID, n)
		}
	}
}

func TestParseTable(t *testing.T) {
	for text, want := range map[string]string{
		`- {xid: 1, verdict: reset, source: s, means: m}`: "",
		"": "",
		`- {xid: 1-3, verdict: reset, source: s, means: m}`:                                                   "",
		`- {xid: x, verdict: reset, source: s, means: m}`:                                                     `"x" is no XID`,
		`- {xid: 3-1, verdict: reset, source: s, means: m}`:                                                   "no range",
		`- {xid: 1-, verdict: reset, source: s, means: m}`:                                                    "is no XID",
		`- {xid: 1, verdict: bad, source: s, means: m}`:                                                       "is no verdict",
		`- {xid: 1, source: s, means: m}`:                                                                     "lacks",
		`- {xid: 1, verdict: reset, source: s, means: m, more: x}`:                                            "more",
		"- {xid: 1-2, verdict: reset, source: s, means: m}\n- {xid: 2, verdict: ignore, source: s, means: m}": "XID 2 has two rows",
		"{": "did not find",
	} {
		_, err := parseTable([]byte(text))
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
