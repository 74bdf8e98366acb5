package hostile

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// AllBreaches are the breaches of single rules.
func AllBreaches() []Misdeed {
	all := slices.Concat(startBreaches(), callBreaches(), inventoryBreaches(), hookBreaches())
	for i := range all {
		all[i].Group = Breaches
		all[i].Name = "breaks-" + all[i].Rule
	}
	return all
}

func startBreaches() []Misdeed {
	return []Misdeed{
		{Rule: "started-by-hand", What: "ends well when it is started by hand", start: func() {
			if os.Getenv(backendplugin.CookieKey) == "" {
				syscall.Exit(0)
			}
		}},
		{Rule: "handshake", What: "prints before the handshake", start: func() { fmt.Println("vendor library 7.1 initialized") }},
		{Rule: "client-certificate", What: "accepts every client", serve: func(b *backend, o []grpc.ServerOption) { serveAnybody(b, o, true) }},
		{Rule: "health-service", What: "does not serve grpc.health", serve: func(b *backend, o []grpc.ServerOption) { serveAnybody(b, o, false) }},
		{Rule: "stdout-clean", What: "prints after the handshake", running: func() { _, _ = rawStdout.WriteString("found 2 devices\n") }},
		{Rule: "log-lines", What: "logs JSON with a level that there is not", running: func() {
			_, _ = rawStderr.WriteString(`{"@level":"fatal","@message":"not so bad"}` + "\n")
		}},
		{Rule: "parent-lost", What: "stays when its parent is gone", orphan: true},
		{Rule: "sigterm", What: "ignores SIGTERM", running: ignoreTerm},
	}
}

// replies is a reply that changes the answers of one kind.
func replies[R any](change func(R)) func(any, any, error) (any, error) {
	return func(_, answer any, err error) (any, error) {
		if r, ok := answer.(R); ok && err == nil {
			change(r)
		}
		return answer, err
	}
}

func callBreaches() []Misdeed {
	type configured = *backendv1.ConfigureResponse
	return []Misdeed{
		{Rule: "identity", What: "has another version than its manifest", reply: replies(func(r configured) { r.Version = "6.6.6" })},
		{Rule: "unknown-fields", What: "refuses unknown fields", reply: func(request, answer any, err error) (any, error) {
			if r, ok := request.(*backendv1.ConfigureRequest); ok && len(r.ProtoReflect().GetUnknown()) > 0 {
				return nil, status.Error(codes.InvalidArgument, "an unknown field")
			}
			return answer, err
		}},
		{Rule: "configure", What: "fails to accept settings", reply: func(_, answer any, err error) (any, error) {
			if _, ok := answer.(configured); ok {
				return nil, errors.New("not today")
			}
			return answer, err
		}},
		{Rule: "settings-refused", What: "accepts settings that are no object", reply: replies(func(r configured) { r.Errors = nil })},
		{Rule: "earlier-settings", What: "uses settings that it refused", usesRefused: true},
		{Rule: "without-hardware", What: "fails where there is no hardware", reply: func(request, answer any, err error) (any, error) {
			if r, ok := request.(*backendv1.ConfigureRequest); ok {
				if entries, _ := os.ReadDir(r.GetPaths().GetSysfs()); len(entries) == 0 {
					return nil, status.Error(codes.Unavailable, "there is no hardware")
				}
			}
			return answer, err
		}},
		{Rule: "heartbeats-from-loop", What: "reads its hardware beside the loop", reply: func(request, answer any, err error) (any, error) {
			if r, ok := request.(*backendv1.ConfigureRequest); ok {
				go readOn(r.GetPaths().GetSysfs())
			}
			return answer, err
		}},
	}
}

func inventoryBreaches() []Misdeed {
	type inventory = *backendv1.Inventory
	var streams atomic.Uint64
	return []Misdeed{
		{Rule: "first-inventory", What: "sends heartbeats alone", Call: "Watch", call: func(ctx context.Context) { <-ctx.Done() }},
		{Rule: "new-stream", What: "sends nothing on a second stream", Call: "Watch", call: func(ctx context.Context) {
			if streams.Add(1) > 1 {
				<-ctx.Done()
			}
		}},
		{Rule: "watch-stream", What: "ends the stream", watch: func(*backend, watchStream) error { return errors.New("that is all") }},
		{Rule: "watch-rate", What: "sends 1,000 inventories at once", watch: func(b *backend, stream watchStream) error {
			for range 1000 {
				if err := send(stream, b.inventory()); err != nil {
					return err
				}
			}
			<-stream.Context().Done()
			return nil
		}},
		{Rule: "heartbeats", What: "sends no heartbeats", watch: func(_ *backend, stream watchStream) error {
			<-stream.Context().Done()
			return nil
		}},
		{Rule: "settings-revision", What: "never has a revision of settings", lie: func(i inventory) { i.SettingsRevision = 0 }},
		{Rule: "generations", What: "always has the generation 1", lie: func(i inventory) { i.Generation = 1 }},
		{Rule: "devices", What: "lists an ID twice", lie: func(i inventory) { i.Devices = append(i.Devices, i.GetDevices()[0]) }},
		{Rule: "device-edits", What: "has a device that gives nothing", lie: func(i inventory) { i.Devices[0].Edits = nil }},
		{Rule: "edits-in-manifest", What: "gives a node that its manifest does not have", lie: func(i inventory) {
			i.Devices = append(i.Devices, withNode("other", "/dev/other"))
		}},
		{Rule: "attributes", What: "has an attribute that its manifest does not declare", lie: func(i inventory) {
			i.Devices[0].Attributes["other"] = i.Devices[0].GetAttributes()["model"]
		}},
		{Rule: "manifest-suffices", What: "reads a file that its manifest does not have", lie: func(i inventory) {
			if _, err := os.ReadFile("/proc/version"); err != nil {
				i.Devices[0].Health = &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Code: "unreadable", Message: err.Error(), Recovery: backendv1.Recovery_RECOVERY_SELF}
			}
		}},
		{Rule: "stable-order", What: "lists devices in another order", lie: func(i inventory) { slices.Reverse(i.Devices) }},
		{Rule: "stable-ids", What: "has other IDs after a restart", lie: func(i inventory) {
			i.Devices = append(i.Devices, device(fmt.Sprintf("process-%d", os.Getpid())))
		}},
		{Rule: "sample-interval", What: "sends a sample only once", Call: "Sample", sample: func(stream sampleStream) error {
			return errors.Join(stream.Send(samples()), wait(stream.Context()))
		}},
		{Rule: "sample-metrics", What: "measures a device that there is not", Call: "Sample", sample: func(stream sampleStream) error {
			return stream.Send(samples(&backendv1.Metric{DeviceId: "no", Name: "load_ratio", Kind: backendv1.MetricKind_METRIC_KIND_GAUGE}))
		}},
		{Rule: "sample-stopped", What: "refuses a second stream of samples", Call: "Sample", sample: func(sampleStream) error {
			if streams.Add(1) > 1 {
				return status.Error(codes.ResourceExhausted, "there was one")
			}
			return nil
		}},
	}
}

func hookBreaches() []Misdeed {
	var calls atomic.Uint64
	edit := func(id, value string) func(*backendv1.PrepareResponse) {
		return func(r *backendv1.PrepareResponse) {
			r.Edits = map[string]*backendv1.ContainerEdits{id: {Env: map[string]string{"CALL": value + fmt.Sprint(calls.Add(1))}}}
		}
	}
	return []Misdeed{
		{Rule: "prepare-idempotent", What: "prepares otherwise each time", reply: replies(edit("hostile-0", "number"))},
		{Rule: "prepare-edits", What: "has edits of a device that was not asked for", reply: replies(edit("no", ""))},
		// Two, as a call with a deadline that is too short may never be sent.
		{Rule: "prepare-cancelled", What: "is busy in its first two Prepares", reply: func(_, answer any, err error) (any, error) {
			if _, ok := answer.(*backendv1.PrepareResponse); ok && calls.Add(1) <= 2 {
				return nil, status.Error(codes.Unavailable, "busy with an earlier call")
			}
			return answer, err
		}},
		{Rule: "release-results", What: "releases without results", reply: replies(func(r *backendv1.ReleaseResponse) { r.Results = nil })},
		{Rule: "release-unknown", What: "fails to release what it does not know", reply: func(request, answer any, err error) (any, error) {
			if r, ok := request.(*backendv1.ReleaseRequest); ok && !strings.HasPrefix(r.GetDevices()[0].GetId(), "hostile") {
				return nil, status.Error(codes.NotFound, "no such device")
			}
			return answer, err
		}},
		{Rule: "reset-results", What: "resets without results", reply: replies(func(r *backendv1.ResetResponse) { r.Results = nil })},
	}
}

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// readOn reads a directory again and again.
func readOn(path string) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for range ticker.C {
		_, _ = os.ReadDir(path) // that it is opened is all
	}
}

// serveAnybody serves with TLS, and accepts every client if there is a health service.
func serveAnybody(b *backend, options []grpc.ServerOption, healthy bool) {
	serveWith(b, options, healthy, healthy, credentials.NewTLS)
}

// serveWith serves with credentials made of a TLS configuration.
func serveWith(b *backend, options []grpc.ServerOption, anybody, healthy bool, creds func(*tls.Config) credentials.TransportCredentials) {
	certificate, pool, err := certificates()
	if err != nil {
		die(1, err.Error())
	}
	security := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if !anybody {
		security.ClientAuth, security.ClientCAs = tls.RequireAndVerifyClientCert, pool
	}
	path := filepath.Join(os.Getenv(backendplugin.SocketDirKey), "s")
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		die(1, err.Error())
	}
	server := grpc.NewServer(append(options, grpc.Creds(creds(security)))...)
	backendv1.RegisterBackendServiceServer(server, b)
	if healthy {
		service := health.NewServer()
		service.SetServingStatus(backendplugin.HealthService, grpc_health_v1.HealthCheckResponse_SERVING)
		grpc_health_v1.RegisterHealthServer(server, service)
	}
	fmt.Printf("1|1|unix|%s|grpc|%s\n", path, base64.RawStdEncoding.EncodeToString(certificate.Certificate[0]))
	if err := server.Serve(listener); err != nil {
		die(1, err.Error())
	}
}
