package claims

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/accelmux/accelmux/test/apiserver"
	"github.com/accelmux/accelmux/test/bench/rig"
)

const nodeName = "node-1"

// apiServer is a stand-in API server that has one Node, and stores ResourceSlices as they come.
type apiServer struct {
	*apiserver.Server
	URL    string
	http   *http.Server
	client kubernetes.Interface // whose requests do not count
}

func startAPIServer() (*apiServer, error) {
	s := &apiServer{Server: apiserver.New(apiserver.Nodes(), apiserver.Events(), apiserver.Claims(), apiserver.Slices())}
	var err error
	if s.client, err = s.Client(); err != nil {
		return nil, err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if _, err := s.client.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: rig.Patience}
	s.URL = "http://" + listener.Addr().String()
	go func() { _ = s.http.Serve(listener) }() // it ends with stop
	return s, nil
}

func (s *apiServer) stop() error { return s.http.Close() }

// directory makes one with a kubeconfig file for the server in it.
func (s *apiServer) directory() (string, error) {
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(kubeconfig(dir), fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", s.URL), 0o600)
}

func kubeconfig(dir string) string { return filepath.Join(dir, "kubeconfig") }

// putClaim stores a claim with its status, and returns it.
func (s *apiServer) putClaim(ctx context.Context, c *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	claims := s.client.ResourceV1().ResourceClaims(c.Namespace)
	stored, err := claims.Create(ctx, c, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	stored.Status = c.Status
	return claims.UpdateStatus(ctx, stored, metav1.UpdateOptions{})
}

// of returns the slices of a driver, sorted by name, and a channel that is closed when anything changes.
func (s *apiServer) of(driver string) (all []*resourceapi.ResourceSlice, changed <-chan struct{}) {
	objects, changed := s.Objects(apiserver.Slices())
	for _, o := range objects {
		if slice, ok := o.(*resourceapi.ResourceSlice); ok && slice.Spec.Driver == driver {
			all = append(all, slice)
		}
	}
	return all, changed
}

// await waits until a driver has published so many devices in complete slices, and returns these.
func (s *apiServer) await(driver string, devices int) ([]*resourceapi.ResourceSlice, error) {
	limit := time.After(rig.Patience)
	for {
		all, more := s.of(driver)
		count := 0
		for _, slice := range all {
			if slice.Spec.Pool.ResourceSliceCount == int64(len(all)) {
				count += len(slice.Spec.Devices)
			}
		}
		if count == devices && len(all) > 0 {
			return all, nil
		}
		select {
		case <-more:
		case <-limit:
			return nil, fmt.Errorf("the API server has %d devices of driver %s instead of %d after %v", count, driver, devices, rig.Patience)
		}
	}
}
