// Package webhook checks the opaque parameters of ResourceClaims, ResourceClaimTemplates and
// DeviceClasses when they are created, so that a mistake is refused at kubectl apply and not when a
// pod starts. The agent checks them again before it prepares a claim, so the cluster works without the
// webhook.
//
// A [Reviewer] checks the parameters for the drivers of a node configuration, by the schemas in the
// manifests of the backends. It starts no program. Parameters for other drivers are not checked. Of one class
// or claim it checks the names of the parameters and each value by itself: the parameters of class and
// claim are joined when the claim is prepared, so a parameter that one lacks may be in the other, and
// the webhook cannot tell that a required one is missing.
//
// [Serve] serves the API server by HTTPS, with a [Certificate] that is read again when it changes.
package webhook
