import torch, numpy as np
M=2147483647; A=1132489760
for seed in (0,1,12345):
    torch.manual_seed(seed)
    s=int(torch.empty(1,dtype=torch.int64).random_(0,2**32 if False else 2**27)[0])
    torch.manual_seed(seed)
    st=torch.get_rng_state()
    e=torch.empty(20,dtype=torch.float32).exponential_()
    e64=None
    torch.manual_seed(seed); 
    # raw 32-bit: use random_ on int32? gives %2^31 ; use two draws
    r=torch.empty(1,dtype=torch.int64).random_(-2**63,None)[0].item() & (2**64-1)
    s32=r>>32
    for name,x0 in (('mod',s32%M),('lo31',s32&0x7fffffff)):
        x=x0 or 1
        u=[]
        for i in range(20):
            u.append(x/M); x=x*A%M
        u=np.array(u)
        print(seed,name,np.abs(-np.log(u)-e.numpy()).max(), np.abs(-np.log1p(-u)-e.numpy()).max())
