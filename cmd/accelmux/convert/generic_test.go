package convert

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/test/manifests"
)

// Verifies that a path of generic-device-plugin with wildcards, also over directories, becomes a kind that the manifest of the
// backend accepts, or is not translated, with a note why.
func TestWildcards(t *testing.T) {
	m := manifests.Load(t, "../../../backends/device/manifest.yaml")
	for path, note := range map[string]string{
		"/dev/dri": "", "/dev/dri*": "", "/dev/snd/*": "", "/dev/bus/usb/*": "", "/dev/bus/usb/*/*": "", "/dev/input/by-*/*": "", "/dev/sda": "",
		"/dev/*": "a pattern begins with", "/dev/*/by-id/*": "a pattern begins with", "/dev/*/*/*": "a pattern begins with",
		"/dev/s*": "it also stands for /dev/snapshot", "/dev/disk/by-id/*": "it also stands for /dev/disk/**", "/dev/mapper/*": "it also stands for /dev/mapper/**",
	} {
		text, notes, err := Generic(Source{Name: "x.yaml", File: []byte("devices: [{name: a, groups: [{paths: [{path: \"" + path + "\"}]}]}]\n")})
		if note != "" {
			if err == nil || len(notes) == 0 || !strings.Contains(notes[0], note) {
				t.Errorf("%s: %v, %q, want a note that %s", path, err, notes, note)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		c, err := config.Parse("x", text)
		if err == nil {
			_, err = plug.Resolve(t.Context(), m, json.RawMessage(c.Profiles[0].Backends[0].Settings))
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
