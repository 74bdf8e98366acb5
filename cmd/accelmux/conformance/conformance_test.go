package conformance

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Verifies which lines are a handshake, and the errors of others.
func TestHandshake(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	security, _, err := plug.MutualTLS()
	if err != nil {
		t.Fatal(err)
	}
	certificate := base64.RawStdEncoding.EncodeToString(security.Certificates[0].Certificate[0])
	for line, want := range map[string]string{
		"1|1|unix|" + socket + "|grpc|" + certificate: "",
		"hello": `it printed "hello" instead of`,
		"2|1|unix|" + socket + "|grpc|" + certificate:       `its handshake has version "2"`,
		"1|9|unix|" + socket + "|grpc|" + certificate:       `version "9" of the contract`,
		"1|1|tcp|127.0.0.1:1|grpc|" + certificate:           "not on a unix socket in PLUGIN_UNIX_SOCKET_DIR",
		"1|1|unix|/run/s|grpc|" + certificate:               "not on a unix socket in PLUGIN_UNIX_SOCKET_DIR",
		"1|1|unix|" + socket + "2|grpc|" + certificate:      "there is no socket at",
		"1|1|unix|" + socket + "|netrpc|" + certificate:     `it speaks "netrpc"`,
		"1|1|unix|" + socket + "|grpc|" + certificate + "=": "not standard base64 without padding",
		"1|1|unix|" + socket + "|grpc|aGVsbG8":              "its certificate is not DER",
		"1|1|unix|" + socket + "|grpc|":                     "its certificate is not DER",
	} {
		_, err := parseHandshake(line, dir)
		if err == nil && want == "" {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", line, err, want)
		}
	}
}

// Verifies that a file is held that a program opens below a root, also by a relative path,
// and that others are not.
func TestTrap(t *testing.T) {
	dir, free := t.TempDir(), filepath.Join(t.TempDir(), "free")
	program := filepath.Join(dir, "program")
	script := fmt.Sprintf("#!/bin/sh\ncd %s\n: > %s\n: > held\n", dir, free)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := launch(program, helperTrap, plug.Environment(nil), noSandbox)
	if err != nil {
		t.Fatal(err)
	}
	trap, err := newTrap(p.helper)
	if err != nil {
		p.kill()
		t.Fatal(err)
	}
	defer func() {
		p.kill()
		trap.close()
	}()
	held := trap.hold([]string{filepath.Join(dir, "held")})
	if path := <-held; path != filepath.Join(dir, "held") {
		t.Errorf("%s is held", path)
	}
	patience.Until(t, "other files are opened", func() bool { _, err := os.Stat(free); return err == nil })
	if _, err := os.Stat(filepath.Join(dir, "held")); err == nil {
		t.Error("the file was opened")
	}
}

// Verifies that files which libraries open on their own are not held, but below a root of the
// caller's everything is.
func TestWhatIsHeld(t *testing.T) {
	for path, want := range map[string]bool{
		"/sys/class/acme/acme0": true, "/dev/acme0": true, "/sys": true, "/dev/shm/sys/class": true,
		"/sys/devices/system/cpu/online": false, "/dev/urandom": false, "/etc/passwd": false, "/system": false,
	} {
		held := &trap{roots: []string{"/sys", "/dev", "/dev/shm/sys"}, held: make(chan string, 1)}
		if held.holdsPath(path) != want {
			t.Errorf("%s is held: %v", path, !want)
		}
	}
}
