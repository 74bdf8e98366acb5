package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// adminToken is the password of the run's own administrator.
	adminToken = "admin"
	// startLimit bounds the start of a server, stopLimit its end.
	startLimit, stopLimit = 2 * time.Minute, 20 * time.Second
)

// controlPlane is an etcd and a kube-apiserver, as processes.
type controlPlane struct {
	dir                string
	etcdPort, etcdPeer int
	apiserverPort      int
	etcd, apiserver    *exec.Cmd
	log                *os.File
}

// startControlPlane starts the programs, which are in PATH; what they keep is in dir.
func startControlPlane(ctx context.Context, dir string) (_ *controlPlane, err error) {
	c := &controlPlane{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	for _, port := range []*int{&c.etcdPort, &c.etcdPeer, &c.apiserverPort} {
		if *port, err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	if c.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	if err := writeKey(filepath.Join(dir, "account.key")); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(adminToken+",admin,admin,system:masters\n"), 0o600); err != nil {
		return nil, err
	}
	client, peer := url("http", c.etcdPort), url("http", c.etcdPeer)
	if c.etcd, err = c.start("etcd", "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer); err != nil {
		return nil, err
	}
	return c, c.startServer(ctx)
}

// startServer starts the API server and waits until it is ready.
func (c *controlPlane) startServer(ctx context.Context) (err error) {
	key := filepath.Join(c.dir, "account.key")
	if c.apiserver, err = c.start("kube-apiserver", "--etcd-servers="+url("http", c.etcdPort),
		"--secure-port="+strconv.Itoa(c.apiserverPort), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--cert-dir="+filepath.Join(c.dir, "pki"), "--token-auth-file="+filepath.Join(c.dir, "tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none", "--profiling=false"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return until(ctx, "the API server is ready", func() bool {
		admin, err := c.admin()
		return err == nil && admin.do(ctx, http.MethodGet, "/readyz", nil, nil) == nil
	})
}

// stopServer ends the API server: as kubelet does, or as a crash.
func (c *controlPlane) stopServer(with syscall.Signal) error {
	err := end(c.apiserver, with)
	c.apiserver = nil
	return err
}

// stop ends both.
func (c *controlPlane) stop() error {
	err := errors.Join(c.stopServer(syscall.SIGTERM), end(c.etcd, syscall.SIGTERM))
	if c.log != nil {
		err = errors.Join(err, c.log.Close())
	}
	return err
}

// config is how to reach the server. The certificate is its own.
func (c *controlPlane) config(token string) *rest.Config {
	return &rest.Config{
		Host: url("https", c.apiserverPort), BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(c.dir, "pki", "apiserver.crt")},
	}
}

func (c *controlPlane) start(name string, args ...string) (*exec.Cmd, error) {
	//nolint:noctx // it is ended by stop, with a signal
	command := exec.Command(name, args...)
	command.Stdout, command.Stderr = c.log, c.log
	// Ctrl-C is for this program, which then stops the servers.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return command, nil
}

// end ends a process, after stopLimit with SIGKILL.
func end(process *exec.Cmd, with syscall.Signal) error {
	if process == nil {
		return nil
	}
	if err := process.Process.Signal(with); err != nil {
		return err
	}
	limit := time.AfterFunc(stopLimit, func() { _ = process.Process.Kill() })
	defer limit.Stop()
	var exit *exec.ExitError
	if err := process.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

func url(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }

// freePort is a port that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// writeKey makes the key that service accounts' tokens are signed with.
func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// until waits for a condition, or for the end of ctx.
func until(ctx context.Context, what string, condition func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
