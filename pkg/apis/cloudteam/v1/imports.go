package v1

// ManagementPolicy says what is done about the network or the floating IP in Neutron.
// +kubebuilder:validation:Enum=Manage;Observe
type ManagementPolicy string

const (
	// ManagementPolicyManage makes it as declared, keeps it so, and deletes it. It is the default.
	ManagementPolicyManage ManagementPolicy = "Manage"
	// ManagementPolicyObserve shows what is there already and writes nothing to Neutron.
	ManagementPolicyObserve ManagementPolicy = "Observe"
)

// PlannedOnly reports whether an object has managementPolicy Plan, which the API server accepts no longer. Nothing is
// written to Neutron for such an object until its user chooses.
func PlannedOnly(obj any) bool {
	const policy = "Plan"
	switch obj := obj.(type) {
	case *Network:
		return obj.Spec.ManagementPolicy == policy
	case *SecurityGroup:
		return obj.Spec.ManagementPolicy == policy
	case *FloatingIP:
		return obj.Spec.ManagementPolicy == policy
	}
	return false
}

// NetworkImport names a network that is in Neutron already.
type NetworkImport struct {
	// id is the id of the network in Neutron. It cannot change later.
	// +neutron:attribute=network.id,mutable=false,privilege=tenant
	// +required
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule=`$isID(self)`,message=`not the id of a network: write what "openstack network show -f value -c id NAME" prints`
	ID string `json:"id"`

	// overwrite says whether a network that differs from the spec is changed to
	// match it, including its name and its subnets. Without it, such a network is
	// not adopted, and the condition lists the differences. The default is false.
	// It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	Overwrite bool `json:"overwrite,omitempty"`
}

// Observes reports whether the Network shows a network of others' and writes nothing to Neutron.
func (n *Network) Observes() bool { return n.Spec.ManagementPolicy == ManagementPolicyObserve }
