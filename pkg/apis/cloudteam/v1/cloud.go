package v1

// CloudReference names the credentials of a cloud, in a Secret of the
// object's own namespace.
type CloudReference struct {
	// secretName is the name of a Secret in this namespace. Its key clouds.yaml
	// has the credentials in the format of OpenStack's clients. The optional keys
	// cacert, cert and key have a CA bundle and a client certificate with its
	// key, in PEM. The controller needs permission to list and watch it. It
	// must be set.
	// +neutron:attribute=none,mutable=true,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')`,message=`not the name of a Secret: write one of this namespace, such as "openstack"`
	SecretName string `json:"secretName"`

	// name is the entry in clouds.yaml. The default is the only entry.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`$isPrintable(self)`,message=`a control character is not allowed, because terminals may act on it: write the name of an entry below "clouds:" in clouds.yaml`
	Name string `json:"name,omitempty"`
}
