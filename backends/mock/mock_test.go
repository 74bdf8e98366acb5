package mock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/patience"
)

// A scenario that is wrong is reported, and the last good one stays.
func TestBadScenarioFile(t *testing.T) {
	r := newRig(t, t.TempDir(), "")
	r.write("devices: {mock-0: {fault: {}}}")
	r.Until("the fault", healthOf("mock-0", unhealthy))
	r.write("devices: {mock-0: {falt: {}}}")
	inv := r.Until("the problem", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) > 0 })
	if p := inv.GetProblems()[0]; !strings.Contains(p, r.file) || !strings.Contains(p, "devices.mock-0.falt: unknown field") || !strings.Contains(p, "last good") {
		t.Errorf("problem %q", p)
	}
	if device(inv, "mock-0").GetHealth().GetState() != unhealthy {
		t.Error("the last good scenario is gone")
	}
	r.write("devices: {mock-7: {}}\nproblems: [a card is dark]")
	inv = r.Until("the good scenario", healthOf("mock-0", healthy))
	if got := strings.Join(inv.GetProblems(), "|"); got != `a card is dark|scenario: no device is named "mock-7"` {
		t.Errorf("problems %s", got)
	}
	// A rename replaces the file atomically: one that is missing for a moment is empty.
	if err := errors.Join(os.Symlink(t.TempDir(), r.file+".new"), os.Rename(r.file+".new", r.file)); err != nil {
		t.Fatal(err)
	}
	r.Until("a directory in its place", func(inv *backendv1.Inventory) bool {
		return len(inv.GetProblems()) == 3 && strings.Contains(inv.GetProblems()[1], "no regular file")
	})
}

// A process that starts with the file that crashed the one before does not crash.
func TestCrashDoesNotRepeat(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "scenario.yaml")
	past := time.Now().Add(-time.Hour)
	if err := errors.Join(writeFile(file, "crash: {}\ndevices: {mock-0: {fault: {}}}"), os.Chtimes(file, past, past)); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dir, "")
	r.Until("the fault", healthOf("mock-0", unhealthy))
	r.write("crash: {id: 2}")
	for done := false; !done; {
		select {
		case <-r.crashed:
			done = true
		case <-r.Events:
		case <-time.After(patience.Long):
			t.Fatal("no crash for another ID")
		}
	}
}

func TestPrepare(t *testing.T) {
	r := newRig(t, t.TempDir(), `{"count": 3, "scenarioFile": "FILE", "prepare": {"edits": {"env": {"EXTRA_{{.Index}}": "{{.ID}}"}}}}`)
	prepare := func(ctx context.Context, id string) (*backendv1.PrepareResponse, error) {
		return r.Prepare(ctx, &backendv1.PrepareRequest{Devices: sdktest.Held(nil, id)})
	}
	res, err := prepare(t.Context(), "mock-1")
	if err != nil || res.GetEdits()["mock-1"].GetEnv()["EXTRA_1"] != "mock-1" {
		t.Errorf("Prepare = %v, %v", res, err)
	}
	// Hooks read the file before they return; there is nothing to wait for.
	r.write("devices: {mock-1: {prepare: {error: the card is dirty}}, mock-2: {prepare: {delay: 1h}}}")
	if _, err := prepare(t.Context(), "mock-1"); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "prepare mock-1: the card is dirty") {
		t.Errorf("Prepare: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := prepare(ctx, "mock-2"); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("Prepare: %v, want DeadlineExceeded", err)
	}
	if _, err := prepare(t.Context(), "mock-9"); err == nil || !strings.Contains(err.Error(), "there is no device mock-9") {
		t.Errorf("Prepare: %v", err)
	}
}

func TestRelease(t *testing.T) {
	r := newRig(t, t.TempDir(), `{"scenarioFile": "FILE", "release": {"error": "stuck"}}`)
	release := func(id string, released bool, message string) {
		t.Helper()
		res, err := r.Release(t.Context(), &backendv1.ReleaseRequest{Devices: sdktest.Held(nil, "gone", "mock-0")})
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range res.GetResults() {
			if result.GetDeviceId() == id && (result.GetReleased() != released || result.GetMessage() != message) {
				t.Errorf("Release: %v", res)
			}
		}
	}
	release("gone", true, "")
	release("mock-0", false, "release mock-0: stuck")
	r.write("devices: {mock-0: {release: {}}}")
	release("mock-0", true, "")
}

// The call log has each call for a device that there is, with its holder and process.
func TestCallLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	r := newRig(t, t.TempDir(), `{"count": 2, "callLog": "`+path+`", "release": {"error": "stuck"}}`)
	holder := &backendv1.Holder{Kind: backendv1.HolderKind_HOLDER_KIND_CLAIM, Id: "uid"}
	if _, err := r.Prepare(t.Context(), &backendv1.PrepareRequest{Holder: holder, Devices: sdktest.Held(nil, "mock-0", "mock-1")}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Release(t.Context(), &backendv1.ReleaseRequest{Holder: holder, Devices: sdktest.Held(nil, "gone", "mock-1")}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll("prepare uid mock-0 PID\nprepare uid mock-1 PID\nrelease uid mock-1 PID\n", "PID", strconv.Itoa(os.Getpid()))
	if got := string(text); got != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
}

// A reset that works takes the fault away, until the file has another.
func TestReset(t *testing.T) {
	r := newRig(t, t.TempDir(), "")
	reset := func() *backendv1.ResetResult {
		t.Helper()
		res, err := r.Reset(t.Context(), &backendv1.ResetRequest{DeviceIds: []string{"mock-0"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.GetResults()) == 0 {
			return nil
		}
		return res.GetResults()[0]
	}
	const fault = "devices: {mock-0: {fault: {code: c, recovery: reset}}}"
	r.write(fault)
	r.Until("the fault", healthOf("mock-0", unhealthy))
	if res := reset(); !res.GetRecovered() {
		t.Errorf("%v", res)
	}
	inv := r.Until("the reset's effect", healthOf("mock-0", healthy))
	if device(inv, "mock-0").GetHealth().GetRecovered() {
		t.Error("the inventory claims what only the reset's result should say")
	}
	r.write(fault + "\nproblems: [x]")
	inv = r.Until("the changed file", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 1 })
	if device(inv, "mock-0").GetHealth().GetState() != healthy {
		t.Error("the same fault is back")
	}
	r.write("")
	r.Until("the end of it", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 0 })
	r.write(fault)
	r.Until("the fault again", healthOf("mock-0", unhealthy))

	r.write("devices: {mock-0: {fault: {recovery: reboot}}}")
	if res := reset(); res.GetRecovered() || !strings.Contains(res.GetMessage(), "needs a reboot") {
		t.Errorf("%v", res)
	}
	r.write("devices: {mock-0: {fault: {recovery: reset}, reset: {result: failed, message: no luck}}}")
	if res := reset(); res.GetRecovered() || res.GetMessage() != "no luck" {
		t.Errorf("%v", res)
	}
}

// A mount's host file is created where the settings require it; a failure is a problem.
func TestCreateFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, dir, `{"devices": [
		{"id": "Dev-1", "edits": {"mounts": [{"hostPath": "`+dir+`/sub/{{.ID}}", "create": true}]}},
		{"id": "Dev-2", "edits": {"mounts": [{"hostPath": "`+dir+`/file/{{.ID}}", "create": true}]}}]}`)
	inv := r.Until("the start", anyInventory)
	if _, err := os.Stat(filepath.Join(dir, "sub", "Dev-1")); err != nil {
		t.Error(err)
	}
	if p := inv.GetProblems(); len(p) != 1 || !strings.Contains(p[0], "Dev-2: the file to mount could not be created") {
		t.Errorf("problems %q", p)
	}
}

// The message that a container asks for is in its environment, and stays while another
// container has the device.
func TestPrepareMessage(t *testing.T) {
	r := newRig(t, t.TempDir(), `{"count": 2, "hooks": ["prepare"]}`)
	prepare := func(message string, shared ...string) (*backendv1.PrepareResponse, error) {
		request := &backendv1.PrepareRequest{Devices: sdktest.Held(shared, "mock-0", "mock-1")}
		if message != "" {
			request.ParametersJson = []byte(`{"message": "` + message + `"}`)
		}
		return r.Prepare(t.Context(), request)
	}
	wants := func(message string, shared ...string) {
		t.Helper()
		res, err := prepare(message, shared...)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"mock-0", "mock-1"} {
			if got := res.GetEdits()[id].GetEnv()["ACCELMUX_MOCK_MESSAGE"]; got != message {
				t.Errorf("%s has the message %q, want %q", id, got, message)
			}
		}
	}
	wants("one")
	wants("two")
	wants("two", "mock-1")
	if _, err := prepare("three", "mock-1"); err == nil || !strings.Contains(err.Error(), `prepare mock-1: another container has the device with the message "two", so it cannot have "three"`) {
		t.Errorf("a shared device has another message: %v", err)
	}
	wants("")
	wants("four")
}
