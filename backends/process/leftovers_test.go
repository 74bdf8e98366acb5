package process

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/sysroot"
)

// A start fails for leftovers only where all processes are visible.
func TestLeftovers(t *testing.T) {
	root := sysroot.NewFiles(t)
	root.Link("self/ns/pid", "pid:[4026531836]")
	host := root.Root
	for _, c := range []struct {
		setting    Leftovers
		procfs     string
		ok, wanted bool
	}{
		{"", host, true, false}, {Ignore, "", true, false}, {Report, "", true, true},
		{Fail, host, true, true}, {Fail, t.TempDir(), false, true},
	} {
		var errs sdk.FieldErrors
		c.setting.Check("prepare.leftovers", c.procfs, &errs)
		if (len(errs) == 0) != c.ok || c.setting.Wanted() != c.wanted {
			t.Errorf("%q: %v, wanted %v", c.setting, errs, c.setting.Wanted())
		}
	}
}

// Leftovers become an error, a line of the log, or nothing, as the setting requires.
func TestJudge(t *testing.T) {
	unknown := errors.New("no procfs")
	for _, c := range []struct {
		setting   Leftovers
		found     string
		err       error
		fail, log string
	}{
		{Ignore, "7", nil, "", ""},
		{Ignore, "", unknown, "", ""},
		{Report, "", nil, "", ""},
		{Report, "7", nil, "", "processes=7"},
		{Report, "", unknown, "", "no procfs"},
		{Fail, "", nil, "", ""},
		{Fail, "7", nil, "it is still used by processes that are not the container's: 7; end them", ""},
		{Fail, "", unknown, "whether it still has processes of an earlier container is not known: no procfs", ""},
	} {
		var log bytes.Buffer
		err := c.setting.Judge(slog.New(slog.NewTextHandler(&log, nil)), c.found, c.err)
		if (err == nil) != (c.fail == "") || err != nil && err.Error() != c.fail {
			t.Errorf("%s, %v, %v: error %v, want %q", c.setting, c.found, c.err, err, c.fail)
		}
		if (log.Len() == 0) != (c.log == "") || !strings.Contains(log.String(), c.log) {
			t.Errorf("%s, %v, %v: log %q, want %q", c.setting, c.found, c.err, log.String(), c.log)
		}
	}
}

// Processes have their names, where these can be read.
func TestNamed(t *testing.T) {
	root := sysroot.NewFiles(t)
	root.File("40/comm", "python\n")
	if got, want := Named(root.Root, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49), "python (40), 41, 42, 43, 44, 45, 46, 47 and 2 more"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := Named(root.Root); got != "" {
		t.Errorf("no process: %q", got)
	}
}
