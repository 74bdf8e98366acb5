package page

import (
	"context"
	"fmt"
	"html"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/accelmux/accelmux/core/diagram"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/profile"
	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/core/status/listing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is an agent of which the page shows these.
type fixed struct {
	report   status.Report
	devices  []listing.Device
	measured func() listing.Telemetry
	topology []diagram.Topology
}

func (f fixed) Report() status.Report     { return f.report }
func (f fixed) Devices() []listing.Device { return f.devices }

func (f fixed) Telemetry(context.Context) listing.Telemetry {
	if f.measured == nil {
		return listing.Telemetry{}
	}
	return f.measured()
}

func (f fixed) Topology(name string) ([]diagram.Topology, error) {
	for _, t := range f.topology {
		if t.Resource == name {
			return []diagram.Topology{t}, nil
		}
	}
	return nil, fmt.Errorf("no resource %s", name)
}

func (f fixed) page(changes ...events.Change) *Page {
	return New(f, func() []events.Change { return changes }, slog.New(slog.DiscardHandler))
}

// get returns what a page answers to a reader at an address, who asks for a host.
func get(p *Page, target, from, host string, headers ...string) (body string, header http.Header) {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	r.RemoteAddr, r.Host = from, host
	for _, name := range headers {
		r.Header.Set(name, "127.0.0.1")
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Body.String(), w.Header()
}

// held is a node with a pod and a claim, whose names are also in messages.
var held = fixed{
	report: status.Report{
		Node: "node-1", Config: profile.Status{Profile: "p"},
		Backends: []status.Backend{{Name: "mock", State: "running", LastError: "failed for pod secret-ns/secret-pod"}},
		Problems: []status.Problem{
			{Message: "claim secret-ns/secret-claim: its definitions could not be written"},
			{Message: "less than the claim's share: the claims secret-ns/secret-a, secret-ns/secret-b have the rest"},
			{Message: "resource example.com/gpu: a container has it as unit mock-0 of example.com/gpu"},
		},
	},
	devices: []listing.Device{{
		Backend: "mock", ID: "mock-0", Class: "gpu", Resource: "example.com/gpu", MadeFor: "secret-uid",
		Faults: []listing.Fault{{Code: "x", Message: "pod secret-ns/secret-pod, which has device mock-0, is gone", Recovery: "self"}},
		Holders: []listing.Holder{
			{Namespace: "secret-ns", Pod: "secret-pod", Container: "secret-main"}, {Namespace: "secret-ns", Pod: "secret-pod", Container: "secret-other"},
			{Namespace: "secret-ns", Claim: "secret-claim", Pod: "secret-user", Container: "secret-main"},
		},
	}},
}

// Verifies that names of pods, containers and claims are shown only to readers on the machine who ask for it by a name
// that no other site can have, whose request no other server passed on.
func TestNames(t *testing.T) {
	p := held.page(events.Change{Device: inventory.Key{Backend: "mock", ID: "mock-0"}, What: "unhealthy", Code: "x", Message: "pod secret-ns/secret-pod is gone"})
	for _, c := range []struct {
		from, host string
		header     string
		named      bool
	}{
		{"127.0.0.1:4000", "localhost:8417", "", true},
		{"127.0.0.1:4000", "127.0.0.1:8417", "", true},
		{"127.0.0.1:4000", "LocalHost", "", true},
		{"[::1]:4000", "[::1]:8417", "", true},
		{"[::1]:4000", "[::1]", "", true},
		{"[::ffff:127.0.0.1]:4000", "localhost", "", true},
		{"10.0.0.7:4000", "localhost:8417", "", false},
		{"127.0.0.1:4000", "evil.example.com:8417", "", false},
		{"127.0.0.1:4000", "localhost.evil.example.com", "", false},
		{"127.0.0.1:4000", "127.0.0.1.nip.io", "", false},
		{"127.0.0.1:4000", "10.0.0.7:8417", "", false},
		{"127.0.0.1:4000", "", "", false},
		{"@", "localhost", "", false},
		{"127.0.0.1:4000", "localhost", "X-Forwarded-For", false},
		{"127.0.0.1:4000", "localhost", "x-forwarded-anything", false},
		{"127.0.0.1:4000", "localhost", "Forwarded", false},
		{"127.0.0.1:4000", "localhost", "Via", false},
		{"127.0.0.1:4000", "localhost", "X-Real-IP", false},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, c.header)
		}
		for _, target := range []string{"/", "/?device=mock/mock-0"} {
			got, _ := get(p, target, c.from, c.host, headers...)
			if named := strings.Contains(got, "secret"); named != c.named {
				at := strings.Index(got, "secret")
				t.Errorf("%+v: names are shown: %v: %s", c, named, got[max(at-80, 0):max(at+40, 0)])
			}
			if want := "a claim, a pod"; !c.named && !strings.Contains(got, want) {
				t.Errorf("%+v: the page has no %q", c, want)
			}
			if !strings.Contains(got, "example.com/gpu: a container has it as unit mock-0 of example.com/gpu") {
				t.Errorf("%+v: a message without names of pods is changed", c)
			}
		}
	}
}

// Verifies that hostile texts are shown as texts, and that the policy allows the page's own style only.
func TestHostile(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror='alert(1)'>`
	d := listing.Device{
		Backend: evil, ID: evil, Class: evil, Resource: evil + "/" + evil, PCIBusID: evil, CDI: evil,
		Faults:     []listing.Fault{{Code: evil, Message: evil, Recovery: evil, From: evil}},
		Attributes: map[string]any{evil: evil, "model": evil}, Holders: []listing.Holder{{Namespace: evil, Pod: evil, Container: evil}},
	}
	at := time.Now()
	f := fixed{
		report: status.Report{
			Node: evil, Version: evil, Config: profile.Status{Profile: evil}, NotReady: []string{evil},
			Backends: []status.Backend{{Name: evil, State: evil, LastError: evil, Vendor: evil}}, Problems: []status.Problem{{Backend: evil, Device: evil, Message: evil}},
			Resources: []status.Resource{{Name: evil, Units: 2, Note: evil}}, Drivers: []status.Driver{{Name: evil, Backend: evil}},
		},
		devices: []listing.Device{d, {Backend: evil, ID: "javascript:alert(1)"}},
		measured: func() listing.Telemetry {
			return listing.Telemetry{
				Devices: []listing.Measured{{Backend: evil, ID: evil, SampledAt: &at, Values: []listing.Value{
					{Name: "power_watts", Value: math.NaN()}, {Name: "utilization_ratio", Value: math.Inf(1)}, {Name: evil, Labels: map[string]string{evil: evil}},
				}}},
				Missing: map[string]string{evil: evil},
			}
		},
		topology: []diagram.Topology{{
			Resource: evil, Policy: evil, Devices: []diagram.Device{{ID: evil, Units: []diagram.Unit{{ID: evil, State: evil}}}, {ID: "b"}},
			Links: []diagram.Link{{A: evil, B: "b", Kind: evil, Path: evil, Count: 1, Weight: 1}},
		}},
	}
	p := f.page(events.Change{Device: inventory.Key{Backend: evil, ID: evil}, What: "unhealthy", Code: evil, Message: evil})
	for _, target := range []string{"/", "/?device=" + `%22%3E%3Cscript%3E`, "/?first=-1", "/?first=99999999999999999999&unhealthy=%22", "/?device=" + strings.ReplaceAll(httpEscape(evil+"/"+evil), "+", "%20")} {
		got, header := get(p, target, "127.0.0.1:1", "localhost")
		for _, bad := range []string{"<script", "<img", "href=\"javascript:", "ZgotmplZ"} {
			if at := strings.Index(got, bad); at >= 0 {
				t.Errorf("%s: %s", target, got[max(at-100, 0):at+50])
			}
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy(between(got, "<style>", "</style>")), "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Referrer-Policy": "no-referrer", "Content-Type": "text/html; charset=utf-8",
		} {
			if header.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", target, name, header.Get(name), want)
			}
		}
		if policy := header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
			t.Errorf("the policy is %s", policy)
		}
	}
}

func httpEscape(s string) string {
	q := question{device: s}
	return between(q.link(""), "device=", "#")
}

func between(text, begin, end string) string {
	_, text, _ = strings.Cut(text, begin)
	text, _, _ = strings.Cut(text, end)
	return text
}

// many is a node with so many devices, of which every eighth has 64 partitions that differ in nothing but their IDs.
func many(devices int) fixed {
	f := fixed{report: status.Report{Node: "node-1", Config: profile.Status{Profile: "p"}, Resources: []status.Resource{{Name: "example.com/gpu", Units: devices}}}}
	for i := range devices {
		d := listing.Device{Backend: "mock", ID: fmt.Sprintf("GPU-%08d-0f7b-4c55-8a0e-2f1d3b6c7e80", i), Class: "gpu", Resource: "example.com/gpu", Healthy: i%1000 != 0}
		if i/64%8 == 0 {
			d.Parent = fmt.Sprintf("parent-%d", i/64)
		}
		f.devices = append(f.devices, d)
	}
	f.measured = func() listing.Telemetry {
		t, at := listing.Telemetry{}, time.Now()
		for _, d := range f.devices {
			m := listing.Measured{Backend: d.Backend, ID: d.ID, SampledAt: &at, Memory: 1 << 30}
			for i, name := range charted {
				m.Values = append(m.Values, listing.Value{Name: name, Value: float64(i) + 0.3})
			}
			t.Devices = append(t.Devices, m)
		}
		return t
	}
	return f
}

// Verifies that the page of 4,096 devices has a bounded size, and that its links lead to every one of them.
func TestMany(t *testing.T) {
	f := many(4096)
	p := f.page()
	for range chartPoints + 1 {
		p.samples.add(f.measured())
	}
	seen, next := map[string]bool{}, regexp.MustCompile(`<a href="([^"]+)">Next</a>`)
	pages := 0
	for target := "/"; target != "" && pages < 100; pages++ {
		got, _ := get(p, target, "127.0.0.1:1", "localhost")
		if len(got) > 300_000 {
			t.Errorf("%s has %d bytes", target, len(got))
		}
		for _, id := range regexp.MustCompile(`GPU-\d{8}`).FindAllString(got, -1) {
			seen[id] = true
		}
		if target = ""; next.MatchString(got) {
			target, _, _ = strings.Cut(html.UnescapeString(next.FindStringSubmatch(got)[1]), "#")
		}
	}
	if pages < 30 || pages == 100 || len(seen) < 3584 {
		t.Errorf("%d devices on %d pages", len(seen), pages)
	}
	if got, _ := get(p, "/?unhealthy", "127.0.0.1:1", "localhost"); strings.Count(got, `scope="row"`) != 5+1 {
		t.Errorf("%d rows of unhealthy devices and of a resource, want 6", strings.Count(got, `scope="row"`))
	}
}

func BenchmarkMany(b *testing.B) {
	f := many(4096)
	p := f.page()
	for range chartPoints {
		p.samples.add(f.measured())
	}
	size := 0
	for b.Loop() {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		size = w.Body.Len()
	}
	b.ReportMetric(float64(size), "B/page")
}

// Verifies that samples are taken while the page is read and for five minutes after, each once, as many as a chart
// shows, and then dropped.
func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var asked atomic.Int64
		key := inventory.Key{Backend: "mock", ID: "mock-0"}
		p := fixed{measured: func() listing.Telemetry {
			asked.Add(1)
			at := time.Now()
			return listing.Telemetry{Devices: []listing.Measured{{Backend: key.Backend, ID: key.ID, SampledAt: &at, Values: []listing.Value{
				{Name: "power_watts", Value: at.Sub(began).Seconds()},
			}}}}
		}}.page()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		if <-time.After(time.Hour); asked.Load() != 0 {
			t.Errorf("asked %d times before anybody read the page", asked.Load())
		}
		get(p, "/", "127.0.0.1:1", "localhost")
		<-time.After(4 * time.Minute)
		get(p, "/", "127.0.0.1:1", "localhost")
		<-time.After(4*time.Minute + time.Second)
		if n := len(p.samples.of(key)[3]); n != 49 {
			t.Errorf("%d samples after 8 minutes, want 49", n)
		}
		get(p, "/", "127.0.0.1:1", "localhost")
		<-time.After(4 * time.Minute)
		if all := p.samples.of(key); len(all[3]) != chartPoints || all[3][chartPoints-1] < all[3][0]+580 || all[0] != nil {
			t.Errorf("samples %v", all)
		}
		<-time.After(2 * time.Minute)
		last := asked.Load()
		if <-time.After(time.Hour); asked.Load() != last || len(p.samples.of(key)[3]) != 0 {
			t.Errorf("asked %d times more, %d samples stored", asked.Load()-last, len(p.samples.of(key)[3]))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Verifies that all colours of text that the style names have a contrast of 4.5 to 1 or more on what is behind them
// (WCAG 2.2, 1.4.3), and shapes of 3 to 1 (1.4.11), in both schemes.
func TestContrast(t *testing.T) {
	light, dark, _ := strings.Cut(style, "@media (prefers-color-scheme: dark)")
	for scheme, css := range map[string]string{"light": light, "dark": dark} {
		colors := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			colors[m[1]] = m[2]
		}
		if len(colors) != 18 {
			t.Fatalf("%s: %d colours, want 18: %v", scheme, len(colors), colors)
		}
		check := func(front, back string, least float64) {
			a, b := luminance(t, colors[front]), luminance(t, colors[back])
			if c := (max(a, b) + 0.05) / (min(a, b) + 0.05); c < least {
				t.Errorf("%s: %s on %s: %.2f to 1, want %v", scheme, front, back, c, least)
			}
		}
		for _, back := range []string{"page", "card"} {
			for _, front := range []string{"text", "muted", "accent"} {
				check(front, back, 4.5)
			}
			check("good", back, 3)
			check("bad", back, 3)
		}
		for _, link := range []string{"l0", "l1", "l2", "l3", "l4"} {
			check(link+"-text", link, 4.5)
		}
	}
}

// luminance is that of WCAG, of a colour as six hexadecimal digits.
func luminance(t *testing.T, color string) (sum float64) {
	t.Helper()
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(color[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		v := float64(n) / 255
		if v <= 0.04045 {
			sum += weight * v / 12.92
		} else {
			sum += weight * math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return sum
}
