package supervisor

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// answering is a server that reports SERVING and calls asked for each check.
type answering struct {
	grpc_health_v1.UnimplementedHealthServer
	asked func()
}

func (a *answering) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	a.asked()
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// Verifies that a backend is not ended if its heartbeats have arrived but were not processed
// because this process did not run, and that one without heartbeats is, although its server
// answers.
func TestHeartbeatsThatWereNotTaken(t *testing.T) {
	for name, sent := range map[string]bool{"sent": true, "not sent": false} {
		t.Run(name, func(t *testing.T) {
			messages := make(chan message, 1)
			w := watching(t, func() {
				if sent {
					messages <- message{}
				}
			})
			w.messages = messages
			err := w.overdue()
			if sent && err != nil || !sent && (err == nil || !strings.Contains(err.Error(), "no heartbeat for 1s although its server answers")) {
				t.Errorf("the verdict is %v", err)
			}
			if sent && time.Until(w.deadline) < w.limit/2 {
				t.Errorf("the next message is due in %v", time.Until(w.deadline))
			}
		})
	}
}

// watching returns a watcher whose deadline has just passed; asked is called for each health
// check.
func watching(t *testing.T, asked func()) *watcher {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	must(t, err)
	server, done := grpc.NewServer(), make(chan struct{})
	grpc_health_v1.RegisterHealthServer(server, &answering{asked: asked})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-done
	})
	i := &instance{timing: &Timing{Health: 20 * time.Second}, log: slog.New(slog.DiscardHandler), ctx: t.Context(), conn: conn, process: &process{group: &group{}, exited: make(chan struct{}), stderr: &logPipe{}}}
	return &watcher{instance: i, intake: &intake{}, silence: time.NewTimer(time.Hour), deadline: time.Now(), limit: time.Second, running: true}
}
