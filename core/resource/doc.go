package resource
