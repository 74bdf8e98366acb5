package page

import (
	"context"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
	"github.com/accelmux/accelmux/core/wake"
)

var (
	//go:embed page.html
	markup string
	//go:embed page.css
	style string

	templates = template.Must(template.New("page").Funcs(template.FuncMap{"slashes": slashes}).Parse(markup))
)

// slashes lets a browser break a line after the slashes of a text.
func slashes(text string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(text), "/", "/<wbr>")) //nolint:gosec // it is escaped
}

const (
	// sampleEvery is the interval of the charts' samples, and of a page that refreshes itself.
	sampleEvery = 10 * time.Second
	// sampleFor is how long after a request samples are still stored.
	sampleFor = 5 * time.Minute
)

// Source is what the page shows; a [status.Source] is one.
type Source interface {
	Report() status.Report
	Devices() []listing.Device
	// Telemetry may wait up to a second for the first samples.
	Telemetry(ctx context.Context) listing.Telemetry
	Topology(resource string) ([]diagram.Topology, error)
}

// Page answers GET requests with the page. Its methods are safe for concurrent use.
type Page struct {
	source  Source
	changes func() []events.Change
	log     *slog.Logger
	// read wakes Run when the page is read.
	read    chan struct{}
	samples samples
}

// New returns the page of what source has. changes returns the latest changes of devices, the newest
// first.
func New(source Source, changes func() []events.Change, log *slog.Logger) *Page {
	return &Page{source: source, changes: changes, log: log, read: make(chan struct{}, 1)}
}

// Run stores samples for the charts while the page is read, until ctx ends.
func (p *Page) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.read:
			p.follow(ctx)
		}
	}
}

// follow stores samples until the page has not been read for sampleFor, and drops them then.
func (p *Page) follow(ctx context.Context) {
	defer p.samples.clear()
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for until := time.Now().Add(sampleFor); time.Now().Before(until); {
		select {
		case <-ctx.Done():
			return
		case <-p.read:
			until = time.Now().Add(sampleFor)
		case <-ticker.C:
			p.samples.add(p.source.Telemetry(ctx))
		}
	}
}

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wake.Send(p.read)
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy(style))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	if err := templates.Execute(w, p.view(r.Context(), ask(r), time.Now())); err != nil {
		p.log.Debug("show the page", "error", err) // the client may have gone
	}
}

// policy allows nothing but the page's own style.
func policy(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
