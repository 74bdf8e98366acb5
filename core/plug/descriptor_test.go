package plug

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/test/programs"
)

// plantWith is plant with a manifest.
func plantWith(t *testing.T, dir, word string) (script []byte) {
	t.Helper()
	script = plant(t, dir, 0o755, word)
	programs.Manifest(t, filepath.Join(dir, "backend"), "")
	return script
}

// Verifies that the program that runs is the one whose checksum was compared, even if the
// file or a directory above it was replaced meanwhile.
func TestPinnedDescriptor(t *testing.T) {
	for name, swap := range map[string]string{"directory": "", "file": "backends/backend"} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			sum := sha256.Sum256(plantWith(t, filepath.Join(top, "meant", "backends"), "meant"))
			plantWith(t, filepath.Join(top, "other", "backends"), "other")
			p, err := Find(filepath.Join(top, "meant", "backends"), "backend", Pins{Program: "sha256:" + hex.EncodeToString(sum[:])})
			must(t, err)
			defer p.Close()
			for _, move := range [][2]string{{"meant", "away"}, {"other", "meant"}} {
				from, to := filepath.Join(top, move[0], swap), filepath.Join(top, move[1], swap)
				must(t, os.MkdirAll(filepath.Dir(to), 0o755))
				must(t, os.Rename(from, to))
			}
			log := newLogPipe(slog.New(slog.DiscardHandler), 1, 1)
			process, err := newProcess(p, os.Environ(), sandbox.Sandbox{Dir: t.TempDir()}, log, nil)
			must(t, err)
			must(t, process.Start(t.Context()))
			out := make([]byte, 100)
			n, err := process.stdout.Read(out)
			if got := string(out[:n]); got != "meant from backend\n" {
				t.Errorf("it prints %q, %v", got, err)
			}
			<-process.exited
			process.release(0)
			if p.Unchanged() {
				t.Error("Unchanged reports true")
			}
		})
	}
}
