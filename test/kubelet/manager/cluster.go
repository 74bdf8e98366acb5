//go:build !kubelet1.26 && !kubelet1.28 && !kubelet1.31

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/resource/install" // conversions, defaults
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"

	"github.com/accelmux/accelmux/test/kubelet/manager/apiserver"
)

// serveCluster serves an API server until the program's input ends. Its address is the first line of
// the output. Slices and classes are validated, and fields of features that are off by default are
// dropped, by the release's own code; claims get its defaults.
func serveCluster(in io.Reader, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	claims, slices, classes := apiserver.Claims(), apiserver.Slices(), apiserver.Classes()
	claims.Prepare = func(o, _ runtime.Object) (runtime.Object, error) {
		legacyscheme.Scheme.Default(o)
		return o, nil
	}
	slices.Prepare, classes.Prepare = by(resourceslice.Strategy, slices.Name), by(deviceclass.Strategy, classes.Name)
	server := &http.Server{Handler: apiserver.New(apiserver.Nodes(), apiserver.Pods(), apiserver.Events(), claims, slices, classes)} //nolint:gosec // its clients are a test's
	go func() {
		_, _ = io.Copy(io.Discard, in) // until whoever started the program is gone
		_ = server.Close()
	}()
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// strategy is what the API server does with the objects of a resource.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// by returns the preparation of an object of resource.k8s.io by a strategy.
func by(s strategy, name string) func(o, old runtime.Object) (runtime.Object, error) {
	group := resourceapi.SchemeGroupVersion
	internal := schema.GroupVersion{Group: group.Group, Version: runtime.APIVersionInternal}
	return func(o, old runtime.Object) (runtime.Object, error) {
		ctx := genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(context.Background(), ""), &genericapirequest.RequestInfo{
			APIGroup: group.Group, APIVersion: group.Version, Resource: name,
		})
		legacyscheme.Scheme.Default(o)
		converted, err := legacyscheme.Scheme.ConvertToVersion(o, internal)
		if err != nil {
			return nil, err
		}
		if old == nil {
			err = rest.BeforeCreate(s, ctx, converted)
		} else {
			var before runtime.Object
			if before, err = legacyscheme.Scheme.ConvertToVersion(old, internal); err == nil {
				err = rest.BeforeUpdate(s, ctx, converted, before)
			}
		}
		if err != nil {
			return nil, err
		}
		return legacyscheme.Scheme.ConvertToVersion(converted, group)
	}
}
