package agent

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/patience"
)

// browser is one tab of a headless Chromium, driven by the DevTools protocol over a pipe: messages of JSON that end
// with a zero byte. It is for one goroutine.
type browser struct {
	testing.TB
	to   io.Writer
	pipe *os.File
	from *bufio.Reader // of the pipe
	last int
	tab  string
	// complaints are the browser's own about the page, such as on its Content-Security-Policy.
	complaints []string
}

// message is a call, an answer to one, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// startBrowser starts Chromium, which ends with the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		host.Lacks(t, "Chromium is not installed")
	}
	theirIn, ourOut := pipe(t)
	ourIn, theirOut := pipe(t)
	command := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	command.ExtraFiles = []*os.File{theirIn, theirOut}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close() // they are the child's now
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = command.Wait()                                      // it was killed
	})
	b := &browser{TB: t, to: ourOut, pipe: ourIn, from: bufio.NewReader(ourIn)}
	var made struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	b.tab = attached.SessionID
	b.call("Page.enable", nil, nil)
	b.call("Log.enable", nil, nil)
	return b
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() }) // some are closed already
	return r, w
}

// call calls a method of the browser and waits for the answer.
func (b *browser) call(method string, params, result any) {
	b.Helper()
	b.last++
	text, err := json.Marshal(message{ID: b.last, Session: b.tab, Method: method, Params: params})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.Fatalf("%s: %v", method, err)
	}
	answer := b.until(func(m message) bool { return m.ID == b.last })
	if answer.Error != nil {
		b.Fatalf("%s: %s", method, answer.Error)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			b.Fatalf("%s: %v", method, err)
		}
	}
}

// until reads messages up to the one that is waited for.
func (b *browser) until(isIt func(message) bool) message {
	b.Helper()
	if err := b.pipe.SetReadDeadline(time.Now().Add(2 * patience.Long)); err != nil {
		b.Fatal(err)
	}
	for {
		text, err := b.from.ReadBytes(0)
		if err != nil {
			b.Fatalf("the browser does not answer: %v", err)
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			b.Fatal(err)
		}
		if m.Method == "Log.entryAdded" {
			b.complaints = append(b.complaints, fmt.Sprint(m.Params))
		}
		if isIt(m) {
			return m
		}
	}
}

// show opens an address in a window of a width, in the light or the dark scheme.
func (b *browser) show(address string, width int, scheme string) {
	b.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Page.navigate", map[string]any{"url": address}, nil)
	b.until(func(m message) bool { return m.Method == "Page.loadEventFired" })
}

// evaluate runs a script in the page, whose policy does not apply to it, and stores what it returns.
func (b *browser) evaluate(script string, result any) {
	b.Helper()
	answer := struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}{}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		b.Fatalf("the script failed: %s", answer.ExceptionDetails)
	}
	if err := json.Unmarshal(answer.Result.Value, result); err != nil {
		b.Fatal(err)
	}
}

// picture stores the page, from its top to a height, or whole with 0, as PNG.
func (b *browser) picture(path string, width, height int) {
	b.Helper()
	if height == 0 {
		b.evaluate("document.documentElement.scrollHeight", &height)
	}
	var answer struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{
		"captureBeyondViewport": true, "clip": map[string]any{"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
	}, &answer)
	image, err := base64.StdEncoding.DecodeString(answer.Data)
	if err == nil {
		err = os.WriteFile(path, image, 0o644) //nolint:gosec // a picture
	}
	if err != nil {
		b.Fatal(err)
	}
}
