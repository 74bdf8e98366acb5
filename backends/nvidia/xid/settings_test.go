package xid

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
)

// The effect of settings and variables on some codes; the cases of the variables are
// those of NVIDIA's device plugin.
func TestOverrules(t *testing.T) {
	for name, c := range map[string]struct {
		settings string
		env      Environment
		want     map[uint64]Verdict
		off      bool
	}{
		"nothing":          {want: map[uint64]Verdict{13: Application, 79: Reboot, 555: Reset}},
		"empty variables":  {env: Environment{Disable: ",", Enable: " , "}, want: map[uint64]Verdict{13: Application, 79: Reboot, 555: Reset}},
		"disabled":         {env: Environment{Disable: "68, 67 ,,79"}, want: map[uint64]Verdict{68: Ignore, 67: Ignore, 79: Ignore, 48: Reset, 555: Reset}},
		"disabled unknown": {env: Environment{Disable: "555"}, want: map[uint64]Verdict{555: Ignore, 556: Reset}},
		"all disabled":     {env: Environment{Disable: "ALL"}, want: map[uint64]Verdict{13: Ignore, 79: Ignore, 555: Ignore}, off: true},
		"xids disabled":    {env: Environment{Disable: "5,Xids"}, want: map[uint64]Verdict{13: Ignore, 79: Ignore, 555: Ignore}, off: true},
		"all but two": {
			env:  Environment{Disable: "all", Enable: "79,31"},
			want: map[uint64]Verdict{79: Reboot, 31: Reset, 48: Ignore, 555: Ignore}, off: true,
		},
		"enabled wins":        {env: Environment{Disable: "11,79", Enable: "11,79"}, want: map[uint64]Verdict{11: Reset, 79: Reboot}},
		"application enabled": {env: Environment{Enable: "31"}, want: map[uint64]Verdict{31: Reset, 13: Application, 555: Reset}},
		"all enabled": {
			env:  Environment{Disable: "all,7", Enable: "all"},
			want: map[uint64]Verdict{13: Reset, 63: Reset, 79: Reboot, 7: Reset, 555: Reset},
		},
		"rows":        {settings: `{"rows":{"109":"ignore","79":"replace","555":"reboot"}}`, want: map[uint64]Verdict{109: Ignore, 79: Replace, 555: Reboot, 48: Reset}},
		"ignore":      {settings: `{"ignore":[109,555]}`, want: map[uint64]Verdict{109: Ignore, 555: Ignore, 48: Reset}},
		"whole table": {settings: `{"table":{"79":"reset"}}`, want: map[uint64]Verdict{79: Reset, 13: Reset, 555: Reset}},
		"empty table": {settings: `{"table":{},"unknown":"application"}`, want: map[uint64]Verdict{79: Application, 13: Application}},
		"unknown":     {settings: `{"unknown":"ignore"}`, want: map[uint64]Verdict{555: Ignore, 79: Reboot}},
		"enabled of the settings' table": {
			settings: `{"table":{"79":"replace"}}`, env: Environment{Disable: "79", Enable: "79"},
			want: map[uint64]Verdict{79: Replace},
		},
		"settings win over variables": {
			settings: `{"rows":{"79":"reboot"},"ignore":[48]}`, env: Environment{Disable: "all", Enable: "48"},
			want: map[uint64]Verdict{79: Reboot, 48: Ignore, 62: Ignore}, off: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := newTable(c.settings, c.env)
			if err != nil {
				t.Fatal(err)
			}
			for code, want := range c.want {
				if row := table.Lookup(code); row.Verdict != want || row.XID != code {
					t.Errorf("XID %d: got %+v, want %s", code, row, want)
				}
			}
			if table.Off() != c.off {
				t.Errorf("off: got %t", table.Off())
			}
		})
	}
}

func newTable(settings string, env Environment) (*Table, error) {
	var s Settings
	if settings != "" {
		if err := json.Unmarshal([]byte(settings), &s); err != nil {
			return nil, err
		}
	}
	return New("health.xid", s, env)
}

func FuzzEnvironment(f *testing.F) {
	f.Add("all", "79")
	f.Add("13,,xids", " 31 ,x")
	f.Fuzz(func(t *testing.T, disable, enable string) {
		table, err := New("", Settings{}, Environment{Disable: disable, Enable: enable})
		if err != nil {
			var errs sdk.FieldErrors
			if !errors.As(err, &errs) {
				t.Fatalf("%T is no list of fields", err)
			}
			return
		}
		for text := range strings.SplitSeq(enable, ",") {
			if code, err := parseXID(strings.TrimSpace(text)); err == nil && !table.Lookup(code).Verdict.Fault() {
				t.Errorf("XID %d is enabled and no fault", code)
			}
		}
	})
}
