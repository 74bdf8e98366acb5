package process

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/proto/openfiles"
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
		found     openfiles.Processes
		err       error
		fail, log string
	}{
		{Ignore, openfiles.Processes{{PID: 7}}, nil, "", ""},
		{Ignore, nil, unknown, "", ""},
		{Report, nil, nil, "", ""},
		{Report, openfiles.Processes{{PID: 7}}, nil, "", "processes=7"},
		{Report, nil, unknown, "", "no procfs"},
		{Fail, nil, nil, "", ""},
		{Fail, openfiles.Processes{{PID: 7}}, nil, "it is still used by processes that are not the container's: 7; end them", ""},
		{Fail, nil, unknown, "whether it still has processes of an earlier container is not known: no procfs", ""},
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
