package edits

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
)

// All mistakes are refused together, each with the path of its field.
func TestRefused(t *testing.T) {
	h := newHost(t, "")
	h.file("", "a file")
	for name, c := range map[string]struct {
		settings string
		devfs    string
		fields   []string
	}{
		"index with CDI":   {settings: `{"deviceIDs":"index"}`, fields: []string{"edits.deviceIDs"}},
		"no nodes, CDI":    {settings: `{"omitDeviceNodes":true}`, fields: []string{"edits.omitDeviceNodes"}},
		"no dev root":      {settings: `{"devRoot":"/does/not/exist"}`, fields: []string{"edits.devRoot"}},
		"dev root, mount":  {settings: `{"devRoot":"/","devRootMount":"/does/not/exist"}`, fields: []string{"edits.devRootMount"}},
		"mount alone":      {settings: `{"devRootMount":"/"}`, fields: []string{"edits.devRootMount"}},
		"dev root's path":  {settings: `{"devRoot":"dev"}`, fields: []string{"edits.devRoot"}},
		"visible with CDI": {settings: `{"visibleDevices":"mounts","deviceIDs":"index","devRoot":"/"}`},
		"no root":          {settings: `{"driverRoot":"/does/not/exist"}`, fields: []string{"edits.driverRoot"}},
		"root is not seen": {settings: `{"driverRootMount":"/does/not/exist"}`, fields: []string{"edits.driverRootMount"}},
		"root is a file":   {settings: `{"driverRootMount":"` + h.Path("a file") + `"}`, fields: []string{"edits.driverRootMount"}},
		"devfs":            {settings: `{}`, devfs: "/host/devices", fields: []string{""}},
		"all is well":      {settings: `{}`},
		"runtime":          {settings: `{"mode":"runtime","visibleDevices":"mounts","imex":{"channels":[0,7],"required":true}}`},
		"runtime, no root": {settings: `{"mode":"runtime","driverRoot":"/does/not/exist"}`, fields: []string{"edits.driverRoot"}},
	} {
		t.Run(name, func(t *testing.T) {
			var s Settings
			err := json.Unmarshal([]byte(c.settings), &s)
			if err == nil {
				paths := h.paths()
				if c.devfs != "" {
					paths.Devfs = c.devfs
				}
				_, err = New("edits", s, paths, slog.New(slog.DiscardHandler))
			}
			var errs sdk.FieldErrors
			if err != nil && !errors.As(err, &errs) {
				t.Fatalf("got %v, want field errors", err)
			}
			var fields []string
			for _, e := range errs {
				fields = append(fields, e.Field)
			}
			if !slices.Equal(fields, c.fields) {
				t.Errorf("got %q, want %q: %v", fields, c.fields, err)
			}
		})
	}
}
