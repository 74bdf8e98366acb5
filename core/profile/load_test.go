package profile

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
)

// Verifies that a file whose settings a manifest refuses is refused as a whole, at the start and later, and that what was in
// force stays.
func TestRefusedSettings(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node.yaml")
	write := func(settings string) {
		t.Helper()
		text := "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\nprofiles:\n  - name: p\n    backends: [{name: mock, settings: " + settings + "}]\n" +
			"    resources: [{name: example.com/gpu, selector: 'true'}]\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(file config.Event) error {
		if strings.Contains(string(file.Data), "wrong") {
			return errors.New("node.yaml:4:1: wrong is no setting")
		}
		return nil
	}
	memory := OpenMemory(MemoryOptions{Path: filepath.Join(dir, "profile"), Configuration: path, Log: slog.New(slog.DiscardHandler)})
	write("{wrong: 1}")
	if _, err := Load(path, "", false, check, memory); err == nil || !strings.Contains(err.Error(), "wrong is no setting") {
		t.Errorf("at the first start: %v", err)
	}
	write("{}")
	loaded, err := Load(path, "", false, check, memory)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSwitch(SwitchOptions{
		Path: path, Check: check, Memory: memory, Wake: func() {}, Log: slog.New(slog.DiscardHandler),
	}, loaded)
	if err != nil {
		t.Fatal(err)
	}
	write("{wrong: 1}")
	s.load(config.Read(path))
	if got := s.Status(); s.next != nil || got.Profile != "p" || !strings.Contains(got.Refused, "wrong is no setting") {
		t.Errorf("a later file: %+v", got)
	}
	memory.SetInForce("p", loaded.source)
	again, err := Load(path, "", false, check, memory)
	if err != nil || string(again.source) != string(loaded.source) || again.refused == nil {
		t.Errorf("after a restart: %v, refused %v", err, again.refused)
	}
}
