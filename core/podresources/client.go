package podresources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/kubeletdir"
)

// maxListSize bounds kubelet's response in bytes. Kubelet accepts 4 MiB for one resource;
// there may be many.
const maxListSize = 64 << 20

// client calls the pod-resources API, version 1.
type client struct {
	socket string
	// quiet is how long a kubelet that has just started gets no List call.
	quiet time.Duration
	// server is the kubelet process, by its socket, and upSince when it began to serve.
	server  kubeletdir.FileID
	upSince time.Time
	// checked is the time of the last successful stat of the socket; zero before the first.
	checked time.Time
}

// startingError reports that kubelet started so recently that it must not be called.
//
// A List makes kubelet free the devices of all pods that it does not know, and at its start
// it loads them one after another (UpdateAllocatedDevices in
// pkg/kubelet/cm/devicemanager, which List calls, and HandlePodAdditions in pkg/kubelet): a
// List between them makes it forget what running pods have, and allocate it again.
type startingError struct{ left time.Duration }

func (e *startingError) Error() string {
	return fmt.Sprintf("kubelet has just started; the agent will list its pods in %v", e.left.Round(time.Millisecond))
}

// List makes a connection for each call: kubelet may have been replaced since, and a
// connection in its own backoff would notice it late.
func (c *client) List(ctx context.Context, now func() time.Time) (List, error) {
	l := List{Began: now()}
	if err := c.check(l.Began); err != nil {
		return List{}, err
	}
	if left := c.quiet - l.Began.Sub(c.upSince); left > 0 {
		return List{}, &startingError{left}
	}
	before := c.server
	conn, err := c.connect()
	if err != nil {
		return List{}, err
	}
	defer func() { _ = conn.Close() }()
	response, err := podresourcesv1.NewPodResourcesListerClient(conn).List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		return List{}, fmt.Errorf("list pod resources at %s: %w", c.socket, err)
	}
	// If kubelet was replaced meanwhile, the response may be the new one's.
	if err := c.check(now()); err != nil {
		return List{}, err
	}
	if c.server != before {
		return List{}, fmt.Errorf("list pod resources at %s: kubelet was restarted meanwhile", c.socket)
	}
	l.KubeletUp = l.Began.Sub(c.upSince)
	l.Pods = response.GetPodResources()
	return l, nil
}

// Get may be called at any time, also when kubelet has just started: it frees nothing.
func (c *client) Get(ctx context.Context, namespace, pod string) (*podresourcesv1.PodResources, error) {
	conn, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	response, err := podresourcesv1.NewPodResourcesListerClient(conn).Get(ctx, &podresourcesv1.GetPodResourcesRequest{PodNamespace: namespace, PodName: pod})
	if err != nil {
		return nil, fmt.Errorf("get pod resources at %s: %w", c.socket, err)
	}
	return response.GetPodResources(), nil
}

// connect makes a connection for one call.
func (c *client) connect() (*grpc.ClientConn, error) {
	conn, err := kubeletdir.Connect(c.socket, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxListSize)))
	if err != nil {
		return nil, fmt.Errorf("connect to kubelet's pod-resources API at %s: %w", c.socket, err)
	}
	return conn, nil
}

// check notices a new kubelet process.
func (c *client) check(now time.Time) error {
	info, err := os.Stat(c.socket)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kubelet's pod-resources socket %s does not exist: does kubelet run, and is --kubelet-root-dir right? (%w)", c.socket, err)
	}
	if err != nil {
		return fmt.Errorf("stat kubelet's pod-resources socket: %w", err)
	}
	id := kubeletdir.IdentityOf(info)
	before := c.checked
	c.checked = now
	if id == c.server {
		return nil
	}
	// The age of a new socket comes from the wall clock, once. A socket from the future has
	// age 0. A socket that is new since the last check is at most as old as that check.
	age := max(now.Sub(id.Modified), 0)
	if !before.IsZero() {
		age = min(age, max(now.Sub(before), 0))
	}
	c.server, c.upSince = id, now.Add(-age)
	return nil
}
