package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	"github.com/accelmux/accelmux/core/status/listing"
)

// maxAnswer bounds what a client reads, in bytes.
const maxAnswer = 64 << 20

// ErrNoAgent is that no process listens on an agent's socket.
var ErrNoAgent = errors.New("no agent answers")

// Client asks a running agent.
type Client struct {
	path string
	http *http.Client
}

// NewClient makes a client for the agent whose run directory is runDir.
func NewClient(runDir string) *Client {
	path := filepath.Join(runDir, SocketName)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
	}}
}

// Report asks for the agent's state.
func (c *Client) Report(ctx context.Context) (Report, error) {
	var report Report
	return report, c.get(ctx, "/v1/status", &report)
}

// Devices asks for all devices.
func (c *Client) Devices(ctx context.Context) ([]listing.Device, error) {
	var devices []listing.Device
	return devices, c.get(ctx, "/v1/devices", &devices)
}

// Telemetry asks for the devices' measurements. The agent samples them for some minutes
// after a question.
func (c *Client) Telemetry(ctx context.Context) (listing.Telemetry, error) {
	var telemetry listing.Telemetry
	return telemetry, c.get(ctx, "/v1/telemetry", &telemetry)
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.ask(ctx, http.MethodGet, path, nil, into)
}

func (c *Client) ask(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://accelmux"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return c.explain(err)
	}
	defer func() { _ = response.Body.Close() }() // read only: nothing to lose
	if response.StatusCode != http.StatusOK {
		return c.refusal(path, response)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("read the agent's answer on %s: %w", c.path, err)
	}
	return nil
}

// explain returns what to do about an agent that cannot be reached.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w on %s: start one with `accelmux run`, or name its run directory with --run-dir", ErrNoAgent, c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the agent's socket %s is for the user who runs the agent only (usually root)", c.path)
	}
	return fmt.Errorf("ask the agent on %s: %w", c.path, err)
}
