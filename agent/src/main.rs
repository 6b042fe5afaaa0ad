//! smoke
mod kernel { pub mod btf; pub mod layout; }
use aya::{EbpfLoader, programs::{BtfTracePoint, Iter}};
#[repr(C, align(8))] struct Al<T: ?Sized>(T);
static OBJ: &Al<[u8]> = &Al(*include_bytes!(concat!(env!("OUT_DIR"), "/mcpwarden.bpf.o")));
fn main() -> anyhow::Result<()> {
    let t = std::time::Instant::now();
    let b = kernel::btf::Btf::from_file(std::path::Path::new("/sys/kernel/btf/vmlinux"))?;
    let l = kernel::layout::resolve(&b)?;
    println!("{l:?} {:?} prep {:?}", t.elapsed(), b.tracepoint_arguments("sched_prepare_exec"));
    drop(b);
    let btf = aya::Btf::from_sys_fs()?;
    let l = [l];
    let mut e = EbpfLoader::new().btf(Some(&btf)).override_global("KERNEL_LAYOUT", &l[..], true).load(&OBJ.0)?;
    for p in ["sched_prepare_exec","sched_process_exec","sched_process_fork","sched_process_exit","sys_exit"] {
        let prog: &mut BtfTracePoint = e.program_mut(p).unwrap().try_into()?;
        match prog.load(p, &btf) { Ok(()) => println!("{p} ok {:?}", prog.info()?.verified_instruction_count()), Err(err) => { let s = format!("{err:?}"); println!("{p}: {} ... {}", &s[..s.len().min(300)], &s[s.len().saturating_sub(3500)..].replace("\\n", "\n")); } }
    }
    let n = if l[0].io_uring_cqe==1 {"io_uring_complete_cqe"} else {"io_uring_complete"};
    let prog: &mut BtfTracePoint = e.program_mut(n).unwrap().try_into()?;
    match prog.load("io_uring_complete", &btf) { Ok(()) => println!("{n} ok"), Err(err) => { let s = format!("{err:?}"); println!("{n}: {}", &s[s.len().saturating_sub(1500)..].replace("\\n", "\n")); } }
    let prog: &mut Iter = e.program_mut("census").unwrap().try_into()?;
    match prog.load("task_file", &btf) { Ok(()) => println!("census ok"), Err(err) => { let s = format!("{err:?}"); println!("census: {}", &s[s.len().saturating_sub(1500)..].replace("\\n", "\n")); } }
    println!("{:?}", t.elapsed());
    Ok(())
}
