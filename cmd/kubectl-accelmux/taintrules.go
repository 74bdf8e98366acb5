package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/cordon"
	"github.com/accelmux/accelmux/core/status/listing"
)

// A rule that cordon made has this label, and the entry in annotations.
const (
	managedBy, pluginName = "app.kubernetes.io/managed-by", "kubectl-accelmux"
	nodeAnnotation        = "accelmux.io/node"
	byAnnotation          = "accelmux.io/cordoned-by"
	reasonAnnotation      = "accelmux.io/cordoned-reason"
)

// rules returns the cluster's DeviceTaintRules; none if the cluster does not have them (before Kubernetes 1.37).
func (c *cluster) rules(ctx context.Context) ([]resourceapi.DeviceTaintRule, error) {
	list, err := c.client.ResourceV1().DeviceTaintRules().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list devicetaintrules: %w", err)
	}
	return list.Items, nil
}

// selects reports whether a rule is for a device of a slice.
func selects(rule *resourceapi.DeviceTaintRule, at pooled) bool {
	s := rule.Spec.DeviceSelector
	is := func(wanted *string, value string) bool { return wanted == nil || *wanted == value }
	return s != nil && is(s.Driver, at.driver) && is(s.Pool, at.pool) && is(s.Device, at.device)
}

// ruleFault is what a rule's taint means for a device.
func ruleFault(rule *resourceapi.DeviceTaintRule) listing.Fault {
	fault := taintFault(rule.Spec.Taint)
	if rule.Labels[managedBy] == pluginName {
		fault.Code = "cordoned"
		fault.Message = cordon.Entry{By: rule.Annotations[byAnnotation], Reason: rule.Annotations[reasonAnnotation]}.String()
	}
	return fault
}

// addRule keeps a device of another DRA driver from new pods, by a DeviceTaintRule. An earlier one of the device is replaced.
func (c *cluster) addRule(ctx context.Context, node string, at pooled, by, reason string) error {
	rule := &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{
			Name: ruleName(at), Labels: map[string]string{managedBy: pluginName},
			Annotations: map[string]string{nodeAnnotation: node, byAnnotation: by, reasonAnnotation: reason},
		},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &at.driver, Pool: &at.pool, Device: &at.device},
			Taint: resourceapi.DeviceTaint{
				Key: cordon.Annotation, Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: &metav1.Time{Time: time.Now().Truncate(time.Second)},
			},
		},
	}
	client := c.client.ResourceV1().DeviceTaintRules()
	_, err := client.Create(ctx, rule, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		if err = client.Delete(ctx, rule.Name, metav1.DeleteOptions{}); err == nil {
			_, err = client.Create(ctx, rule, metav1.CreateOptions{})
		}
	}
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the cluster has no DeviceTaintRules (resource.k8s.io/v1, Kubernetes 1.37 and later), so devices of the driver %s cannot be cordoned", at.driver)
	}
	return err
}

// ruleName is that of the rule for a device.
func ruleName(at pooled) string {
	sum := sha256.Sum256([]byte(at.driver + "\n" + at.pool + "\n" + at.device))
	return "accelmux-cordon-" + hex.EncodeToString(sum[:8])
}

// cordonRules returns the rules that cordon made for devices of a node, by DRIVER/DEVICE.
func (c *cluster) cordonRules(ctx context.Context, node string) (map[string]string, error) {
	rules, err := c.rules(ctx)
	rules = slices.DeleteFunc(rules, func(r resourceapi.DeviceTaintRule) bool {
		s := r.Spec.DeviceSelector
		return r.Labels[managedBy] != pluginName || r.Annotations[nodeAnnotation] != node || s == nil || s.Driver == nil || s.Device == nil
	})
	byDevice := map[string]string{}
	for _, r := range rules {
		byDevice[*r.Spec.DeviceSelector.Driver+"/"+*r.Spec.DeviceSelector.Device] = r.Name
	}
	return byDevice, err
}
